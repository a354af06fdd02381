//! Notes of who made the programs on disk and how they were compiled.
//!
//! A program's file is named by a hash that covers its maker and its options, so that the entry of
//! another maker is merely absent. These notes say what to try instead, to tell why.

use crate::key::{Form, Key, Maker};
use crate::store::place;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

pub(crate) const MAKER: &str = "maker";
pub(crate) const FORM: &str = "form";

/// Notes that are read; a store that has more is not looked through.
const MOST: usize = 64;

/// The notes beside the programs in `dir`.
#[derive(Debug)]
pub(crate) struct Makers {
    dir: PathBuf,
    known: OnceLock<Known>,
}

#[derive(Debug, Default)]
struct Known {
    makers: Vec<Maker>,
    forms: Vec<String>,
}

impl Makers {
    pub(crate) fn new(dir: PathBuf) -> Makers {
        Makers {
            dir,
            known: OnceLock::new(),
        }
    }

    /// Leaves a note of a program that was written. Failing costs only later explanations.
    pub(crate) fn note(&self, maker: &Maker, form: &Form) {
        let form_name = blake3::hash(form.text().as_bytes()).to_hex();
        for (name, extension, text) in [
            (maker.salt.hex(), MAKER, maker.text()),
            (form_name.to_string(), FORM, form.text()),
        ] {
            let name = format!("{name}.{extension}");
            if !self.dir.join(&name).exists() {
                let _ = place(&self.dir, &name, &[text.as_bytes()]);
            }
        }
    }

    /// What keeps the program from being found, if `exists` knows its key by another maker or in
    /// another form; empty if not.
    pub(crate) fn instead(
        &self,
        maker: &Maker,
        form: &Form,
        canonical: &str,
        exists: impl Fn(Key) -> bool,
    ) -> String {
        let known = self.known.get_or_init(|| read(&self.dir));
        let own = form.text().to_owned();
        let forms = std::iter::once(&own).chain(known.forms.iter().filter(|f| **f != own));
        let body = canonical.strip_prefix(form.text()).unwrap_or(canonical);
        for text in forms {
            let key = Key::of(&format!("{text}{body}"));
            let makers = std::iter::once(maker).chain(&known.makers);
            let found = makers
                .filter(|m| m.salt != maker.salt || *text != own)
                .find(|m| exists(key.salted(&m.salt)));
            if let Some(other) = found {
                let mut differ = differences(maker.text(), other.text());
                differ.extend(differences(form.text(), text));
                let differ: Vec<&str> = differ.iter().map(String::as_str).collect();
                return format!(
                    "the disk has it made with a different {}",
                    differ.join(", ")
                );
            }
        }
        String::new()
    }
}

fn read(dir: &Path) -> Known {
    let mut known = Known::default();
    let Ok(files) = std::fs::read_dir(dir) else {
        return known;
    };
    for path in files.flatten().map(|file| file.path()).take(MOST) {
        let extension = path.extension().and_then(|extension| extension.to_str());
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue;
        };
        match extension {
            Some(MAKER) => known.makers.push(Maker::of(text)),
            Some(FORM) => known.forms.push(text),
            _ => {}
        }
    }
    known
}

/// The first words of the lines that two texts do not share, such as `plugin`.
pub(crate) fn differences(one: &str, other: &str) -> BTreeSet<String> {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let (one, other) = (lines(one), lines(other));
    let differ = one.symmetric_difference(&other);
    differ
        .filter_map(|line| line.split([' ', ':', '\t']).next())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tier;
    use tpu_pjrt::OptionValue;

    fn maker(plugin: &str) -> Maker {
        Maker::of(format!(
            "torch_tpu programs 1\nplugin {plugin}\nplatform cpu 1\n"
        ))
    }

    #[test]
    fn what_differs_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let makers = || Makers::new(dir.path().to_owned());
        let flag = [("xla_flag".to_owned(), OptionValue::Int(1))];
        let (plain, flagged) = (Form::new(Tier::Full, &[]), Form::new(Tier::Full, &flag));
        let (here, there) = (maker("abc"), maker("def"));
        makers().note(&there, &plain);
        let body = "types f32[2] -> f32[2]\n\nmodule {}";
        let canonical = |form: &Form| format!("{}{body}", form.text());
        let stored = Key::of(&canonical(&plain)).salted(&there.salt);
        let instead = |maker: &Maker, form: &Form| {
            makers().instead(maker, form, &canonical(form), |key| key == stored)
        };
        assert_eq!(
            instead(&here, &plain),
            "the disk has it made with a different plugin"
        );
        assert_eq!(
            instead(&there, &flagged),
            "the disk has it made with a different options"
        );
        assert_eq!(
            instead(&here, &flagged),
            "the disk has it made with a different options, plugin"
        );
        assert_eq!(instead(&there, &plain), "");
    }
}
