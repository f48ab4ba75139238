//! regex; nom; unicode-segmentation.

use nom::branch::alt;
use nom::character::complete::{char, digit1, space0};
use nom::combinator::map_res;
use nom::multi::fold_many0;
use nom::sequence::{delimited, pair};
use nom::{IResult, Parser};
use regex::Regex;
use unicode_segmentation::UnicodeSegmentation;

/// A number or an expression in parentheses.
fn factor(text: &str) -> IResult<&str, i64> {
    let number = map_res(digit1, str::parse);
    delimited(space0, alt((number, delimited(char('('), sum, char(')')))), space0).parse(text)
}

fn product(text: &str) -> IResult<&str, i64> {
    let (rest, first) = factor(text)?;
    let operator = alt((char('*'), char('/')));
    fold_many0(pair(operator, factor), move || first, |a, (o, b)| if o == '*' { a * b } else { a / b }).parse(rest)
}

fn sum(text: &str) -> IResult<&str, i64> {
    let (rest, first) = product(text)?;
    let operator = alt((char('+'), char('-')));
    fold_many0(pair(operator, product), move || first, |a, (o, b)| if o == '+' { a + b } else { a - b }).parse(rest)
}

pub(crate) fn show() {
    let date = Regex::new(r"(?<year>\d{4})-(?<month>\d\d)-(?<day>\d\d)").expect("a right pattern");
    let text = "launched 1892-10-26, sold 1929-05-03; not 92-1-1";
    println!("regex {:?}", date.find_iter(text).map(|found| found.as_str()).collect::<Vec<_>>());
    println!("regex.replaced {}", date.replace_all(text, "$day.$month.$year"));
    println!("regex.unicode {:?}", Regex::new(r"^\w+$").map(|word| word.is_match("Grüße")));
    println!("regex.refused {:?}", ["(", "[a"].map(|wrong| Regex::new(wrong).is_err()));
    // A pattern on which backtracking would take for ever.
    println!("regex.linear {:?}", Regex::new("(x+x+)+y").map(|slow| slow.is_match(&"x".repeat(5000))));

    println!("nom {:?}", sum(" 2 * (3 + 4) - 10/5 "));
    println!("nom.refused {}", sum("*").is_err());

    println!("unicode-segmentation {:?}", "e\u{301}🇳🇴x".graphemes(true).map(str::len).collect::<Vec<_>>());
    println!("unicode-segmentation.words {:?}", "It's 3.5 m".unicode_words().collect::<Vec<_>>());
}
