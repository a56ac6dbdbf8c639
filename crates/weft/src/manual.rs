//! `weft manual`: manual pages and shell completions, made from the command line's definition, so that they say what it does.

use crate::error::{Result, Tried};
use crate::output::say;
use clap::{Args, Command, Subcommand};
use clap_complete::Shell;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

/// `weft manual ...`
#[derive(Args)]
pub struct ManualCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Writes a page for `weft` and for each of its subcommands: weft.1, weft-status.1, ...
    Pages {
        /// Where to; made if it is not there.
        directory: PathBuf,
    },
    /// Prints what a shell completes by.
    Completions {
        /// Which shell.
        shell: Shell,
    },
}

/// Runs `weft manual ...`.
///
/// # Errors
/// If something cannot be written.
pub fn run(command: &ManualCommand) -> Result<()> {
    match &command.what {
        What::Pages { directory } => {
            fs::create_dir_all(directory).tried_on("cannot make", directory)?;
            let pages = pages(crate::definition());
            for (name, page) in &pages {
                let file = directory.join(name);
                fs::write(&file, page).tried_on("cannot write", &file)?;
            }
            say!("{} pages in {}", pages.len(), directory.display())
        }
        What::Completions { shell } => {
            let text = completions(*shell);
            match io::stdout().lock().write_all(&text) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                written => written.tried(|| "cannot write the completions".into()),
            }
        }
    }
}

fn completions(shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut visible(crate::definition()), "weft", &mut text);
    text
}

/// Without what is hidden, which nobody is to be offered.
fn visible(command: Command) -> Command {
    let shown: Vec<Command> = command
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set())
        .map(|sub| visible(sub.clone()))
        .collect();
    // clap keeps names for as long as the program runs, which is not long here.
    let name: &'static str = command.get_name().to_owned().leak();
    let mut bare = Command::new(name).args(
        command
            .get_arguments()
            .filter(|arg| !arg.is_hide_set())
            .cloned(),
    );
    if let Some(about) = command.get_about() {
        bare = bare.about(about.clone());
    }
    bare.subcommands(shown)
}

/// The pages by the names of their files.
fn pages(root: Command) -> Vec<(String, Vec<u8>)> {
    let mut root = root.disable_help_subcommand(true);
    root.build();
    let mut found = Vec::new();
    collect(&root, "weft", &mut found);
    found
}

fn collect(command: &Command, name: &str, found: &mut Vec<(String, Vec<u8>)>) {
    let version = env!("CARGO_PKG_VERSION");
    let page = clap_mangen::Man::new(command.clone())
        .title(name.to_uppercase())
        .source(format!("Weft {version}"))
        .manual("Weft");
    let mut text = Vec::new();
    // Writing into memory does not fail.
    if page.render(&mut text).is_ok() {
        found.push((format!("{name}.1"), text));
    }
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        collect(sub, &format!("{name}-{}", sub.get_name()), found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The visible commands below one, each as its words.
    fn commands(command: &Command, words: &str, found: &mut Vec<String>) {
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let words = format!("{words} {}", sub.get_name());
            commands(sub, &words, found);
            found.push(words);
        }
    }

    #[test]
    fn every_command_has_a_page_that_says_what_its_options_are() {
        let definition = crate::definition();
        let mut all = vec!["weft".to_owned()];
        commands(&definition, "weft", &mut all);
        assert!(all.len() > 30, "{all:?}");
        let pages = pages(crate::definition());
        assert_eq!(pages.len(), all.len());
        for words in &all {
            let file = format!("{}.1", words.replace(' ', "-"));
            let page = pages.iter().find(|(name, _)| *name == file);
            let page = String::from_utf8(page.expect(words).1.clone()).unwrap();
            assert!(page.contains(".TH") && page.contains("SYNOPSIS"), "{page}");
            let mut command = &definition;
            for word in words.split(' ').skip(1) {
                command = command.find_subcommand(word).unwrap();
            }
            for argument in command.get_arguments().filter(|it| !it.is_hide_set()) {
                let Some(long) = argument.get_long() else {
                    continue;
                };
                // As pages write it: a dash would else be a hyphen.
                let shown = long.replace('-', "\\-");
                assert!(page.contains(&shown), "{words}: --{long}\n{page}");
            }
        }
    }

    #[test]
    fn every_shell_is_told_of_every_command() {
        let mut all = Vec::new();
        commands(&crate::definition(), "weft", &mut all);
        for shell in [
            Shell::Bash,
            Shell::Zsh,
            Shell::Fish,
            Shell::Elvish,
            Shell::PowerShell,
        ] {
            let text = String::from_utf8(completions(shell)).unwrap();
            for words in &all {
                let last = words.rsplit(' ').next().unwrap();
                assert!(text.contains(last), "{shell}: {words}");
            }
            for hidden in ["mount.weft", "silent-after", "manual"] {
                assert!(!text.contains(hidden), "{shell}: {hidden}");
            }
        }
    }
}
