//! Links between the pages of documentation lead somewhere: to a file, and to a heading in it.

mod docs_support;

use docs_support::{Page, pages, root};
use std::path::Path;

/// Why a link of a page leads nowhere.
fn broken(page: &Page, link: &str) -> Option<String> {
    if link.contains("://") {
        return None;
    }
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = Path::new(&page.name).with_file_name(file);
    if !file.is_empty() && !root().join(&target).exists() {
        return Some(format!("there is no {}", target.display()));
    }
    let anchors =
        || if file.is_empty() { page.anchors() } else { Page::named(target.to_str().unwrap_or_default()).anchors() };
    let missing = !heading.is_empty() && !anchors().contains(heading);
    missing.then(|| format!("no heading is called {heading} in {link}"))
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut wrong = Vec::new();
    for page in pages() {
        let links = page.links();
        wrong.extend(links.into_iter().filter_map(|(place, link)| Some(format!("{place}: {}", broken(&page, &link)?))));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_page_is_linked_from_the_readme() {
    let readme = Page::named("README.md");
    let linked: Vec<String> = readme.links().into_iter().map(|(_, link)| link).collect();
    for page in pages() {
        assert!(page.name == "README.md" || linked.contains(&page.name), "README.md does not link {}", page.name);
    }
}

#[test]
fn links_that_lead_nowhere_are_found() {
    let text =
        "# A heading, `of` words\n\n[](#a-heading-of-words) [](#none) [](files.md#paths) [](none.md) [](files.md#none)";
    let page = Page { name: "docs/page.md".to_owned(), text: text.to_owned() };
    let found: Vec<_> = page.links().iter().filter_map(|(_, link)| broken(&page, link)).collect();
    let expected = [
        "no heading is called none in #none",
        "there is no docs/none.md",
        "no heading is called none in files.md#none",
    ];
    assert_eq!(found, expected);
}

#[test]
fn the_glossary_is_in_order_and_leads_on() {
    let glossary = Page::named("docs/glossary.md");
    let rows =
        |text: &'static str| move |row: &&str| row.starts_with("| ") && !row.contains(text) && !row.contains("---");
    for table in glossary.text.split("\n## ").skip(1) {
        let rows: Vec<&str> = table.lines().filter(rows(" | meaning |")).collect();
        let words: Vec<String> =
            rows.iter().map(|row| row.split('|').nth(1).unwrap_or_default().to_lowercase()).collect();
        assert!(words.len() >= 8 && words.is_sorted(), "{words:?}");
        assert!(rows.iter().all(|row| row.contains(".md")), "a word without a page: {rows:#?}");
    }
}
