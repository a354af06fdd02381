//! `requirements.txt`: the one list of pinned Python packages.

use crate::error::{Error, Result};
use crate::tree::Tree;
use std::path::PathBuf;

/// Marks a package to be installed without what it asks for; a reason follows in the file.
const ALONE: &str = "no-deps:";

/// The packages of an environment.
#[derive(Debug, PartialEq)]
pub(crate) struct Requirements {
    /// Installed with their dependencies.
    pub(crate) packages: Vec<String>,
    /// Installed without, because what they ask for is not used here.
    pub(crate) alone: Vec<String>,
}

impl Requirements {
    /// Reads the list, with another release of torch where one is asked for.
    ///
    /// # Errors
    /// When the file cannot be read, pins no torch, or a line does not pin a version.
    pub(crate) fn read(tree: &Tree, torch: Option<&str>) -> Result<Self> {
        let name = "requirements.txt";
        let mut list = Self::parse(&tree.read(name)?).map_err(|why| malformed(tree, name, why))?;
        if list.version("torch").is_none() {
            return Err(malformed(tree, name, "pins no `torch`".into()));
        }
        if let Some(torch) = torch {
            list.packages.retain(|line| !line.starts_with("torch=="));
            list.packages.insert(0, format!("torch=={torch}"));
        }
        Ok(list)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let (mut packages, mut alone) = (Vec::new(), Vec::new());
        for line in text.lines() {
            let (pin, remark) = line.split_once('#').unwrap_or((line, ""));
            match pin.trim() {
                "" => continue,
                pin if !pin.contains("==") => return Err(format!("`{pin}` pins no version")),
                pin if remark.trim_start().starts_with(ALONE) => alone.push(pin.to_owned()),
                pin => packages.push(pin.to_owned()),
            }
        }
        Ok(Self { packages, alone })
    }

    /// The pinned version of a package.
    pub(crate) fn version(&self, package: &str) -> Option<&str> {
        let pins = self.packages.iter().chain(&self.alone);
        let mut pairs = pins.filter_map(|pin| pin.split_once("=="));
        pairs.find_map(|(name, version)| (name == package).then_some(version))
    }
}

fn malformed(tree: &Tree, name: &str, why: String) -> Error {
    let path: PathBuf = tree.root.join(name);
    Error::Malformed { path, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_and_loners_are_told_apart() {
        let text = "# head\n\ntorch==2.14.0\nplugin==0.1  # no-deps: asks for jax\nx==1 # why\n";
        let list = Requirements::parse(text).unwrap();
        assert_eq!(list.packages, ["torch==2.14.0", "x==1"]);
        assert_eq!(list.alone, ["plugin==0.1"]);
        assert_eq!(list.version("plugin"), Some("0.1"));
        assert_eq!(list.version("jax"), None);
    }

    #[test]
    fn a_line_without_a_version_is_refused() {
        let why = Requirements::parse("numpy>=2\n").unwrap_err();
        assert_eq!(why, "`numpy>=2` pins no version");
    }

    #[test]
    fn another_torch_replaces_the_pinned_one() {
        let tree = Tree::find().unwrap();
        let list = Requirements::read(&tree, Some("9.8.7")).unwrap();
        assert_eq!(list.version("torch"), Some("9.8.7"));
        let pins = list
            .packages
            .iter()
            .filter(|pin| pin.starts_with("torch=="));
        assert_eq!(pins.count(), 1);
    }
}
