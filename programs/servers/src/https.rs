//! HTTPS by reqwest with rustls: a host whose certificate an authority has signed that is in a file.

use std::env;
use std::error::Error;

use reqwest::{Certificate, Client};
use tokio::fs;

/// What is asked for.
pub(crate) struct Asked {
    /// A page of the host, by its name.
    url: String,
    /// The same by a name that is not in the certificate.
    other_url: String,
    /// The file with the authority's certificate.
    roots: String,
}

impl Asked {
    /// What the arguments `--https=…`, `--other=…` and `--roots=…` say; `None` if the program has other things to do.
    pub(crate) fn from_arguments() -> Option<Asked> {
        let word = |name: &str| env::args().find_map(|argument| Some(argument.strip_prefix(name)?.to_owned()));
        Some(Asked { url: word("--https=")?, other_url: word("--other=")?, roots: word("--roots=")? })
    }
}

/// A client that trusts the authority, and one that does not.
pub(crate) async fn ask(asked: &Asked) -> Result<(), Box<dyn Error>> {
    let roots = Certificate::from_pem(&fs::read(&asked.roots).await?)?;
    let client = Client::builder().add_root_certificate(roots).https_only(true).build()?;
    let answer = client.get(&asked.url).send().await?;
    println!("trusted: {}, {}", answer.status().as_u16(), answer.text().await?.trim());
    println!("another name: {}", refused(&client, &asked.other_url).await.contains("not valid for name"));
    println!("untrusted: {}", refused(&Client::new(), &asked.url).await);
    Ok(())
}

/// Why a page is not got: the innermost reason.
async fn refused(client: &Client, url: &str) -> String {
    let Err(error) = client.get(url).send().await else { return "it was answered".to_owned() };
    let mut reason: &dyn Error = &error;
    while let Some(inner) = reason.source() {
        reason = inner;
    }
    reason.to_string()
}
