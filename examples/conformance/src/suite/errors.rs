//! `std::error`, `?`, and what becomes an error of what.

use super::check;
use std::error::Error;
use std::fmt;
use std::io;
use std::num::ParseIntError;

#[derive(Debug)]
struct Outer(ParseIntError);

impl fmt::Display for Outer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("outer")
    }
}

impl Error for Outer {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

impl From<ParseIntError> for Outer {
    fn from(error: ParseIntError) -> Outer {
        Outer(error)
    }
}

fn parsed(text: &str) -> Result<u8, Outer> {
    Ok(text.parse::<u8>()?)
}

fn boxed(text: &str) -> Result<u8, Box<dyn Error>> {
    if text.is_empty() {
        return Err("no text".into());
    }
    if text == "io" {
        Err(io::Error::from(io::ErrorKind::NotFound))?;
    }
    Ok(parsed(text)?)
}

/// An error and what caused it, all the way down.
fn chain(error: &dyn Error) -> Vec<String> {
    let mut texts = vec![error.to_string()];
    let mut next = error.source();
    while let Some(error) = next {
        texts.push(error.to_string());
        next = error.source();
    }
    texts
}

pub(super) fn all() {
    check!("question_mark", (parsed("7").ok(), parsed("x").map_err(|e| e.to_string())));
    check!("source", parsed("300").map_err(|e| chain(&e)));
    check!("boxed", ["5", "", "io", "-"].map(|text| boxed(text).map_err(|e| chain(&*e))));
    check!(
        "downcast",
        (
            boxed("x").unwrap_err().is::<Outer>(),
            boxed("").unwrap_err().downcast::<Outer>().is_err(),
            boxed("io").unwrap_err().downcast_ref::<io::Error>().map(io::Error::kind)
        )
    );
    check!(
        "from_texts",
        (
            Box::<dyn Error>::from("a").to_string(),
            Box::<dyn Error + Send + Sync>::from(String::from("b")),
            Box::<dyn Error>::from(std::borrow::Cow::Borrowed("c"))
        )
    );
    check!("of_reference", {
        let error = Outer("x".parse::<u8>().unwrap_err());
        let by_reference: &dyn Error = &&error;
        by_reference.source().is_some()
    });
    check!("of_box", {
        let error: Box<dyn Error> = Box::new(fmt::Error);
        (error.to_string(), format!("{error:?}"), error.source().is_none())
    });
    check!(
        "option_to_result",
        (
            None::<u8>.ok_or("none"),
            Some(1).ok_or("none"),
            Ok::<u8, &str>(1).ok(),
            Err::<u8, _>("e").unwrap_or_default()
        )
    );
    check!(
        "result_methods",
        (
            Ok::<_, ()>(2).map(|n| n * 2),
            Err::<(), _>(3).map_err(|n| n + 1),
            Ok::<_, ()>(1).and_then(|n| if n > 1 { Ok(n) } else { Err(()) }),
            Err::<u8, u8>(1).or_else(|e| Ok::<u8, u8>(e)),
            Some(Ok::<u8, ()>(1)).transpose()
        )
    );
    check!(
        "of_std_types",
        (
            String::from_utf8(vec![0xff]).unwrap_err().to_string(),
            u8::try_from(-1i32).unwrap_err().to_string(),
            std::char::from_u32(0x11_0000),
            std::time::Duration::try_from_secs_f64(-1.0).unwrap_err().to_string(),
            "1.1.1".parse::<std::net::Ipv4Addr>().unwrap_err().to_string()
        )
    );
}
