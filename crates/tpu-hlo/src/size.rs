//! Sizes that only a launch knows, as expressions of symbols.
use smallvec::SmallVec;

/// `constant + sum(coefficient * symbol)`; symbols are numbered from 0.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Linear {
    /// What is added.
    pub constant: i64,
    /// Symbols with their coefficients, which are not 0, by rising symbol.
    pub terms: SmallVec<[(u32, i64); 2]>,
}

impl Linear {
    /// The value where symbol `i` is `point[i]`.
    pub fn at(&self, point: &[i64]) -> i64 {
        let term = |(s, k): &(u32, i64)| k * point.get(*s as usize).copied().unwrap_or(1);
        self.constant + self.terms.iter().map(term).sum::<i64>()
    }

    /// The sum of both.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        let mut terms = self.terms.clone();
        for (symbol, k) in &other.terms {
            match terms.iter_mut().find(|(s, _)| s == symbol) {
                Some(term) => term.1 += k,
                None => terms.push((*symbol, *k)),
            }
        }
        terms.retain(|(_, k)| *k != 0);
        terms.sort_unstable();
        Self {
            constant: self.constant + other.constant,
            terms,
        }
    }

    /// The size where symbol `i` is the same as symbol `map[i]`.
    fn merged(&self, map: &[u32]) -> Self {
        let renamed = |(s, k): &(u32, i64)| Self {
            constant: 0,
            terms: smallvec::smallvec![(map[*s as usize], *k)],
        };
        let constant = Self::number(self.constant);
        self.terms
            .iter()
            .map(renamed)
            .fold(constant, |sum, term| sum.plus(&term))
    }

    /// A number.
    pub(crate) fn number(constant: i64) -> Self {
        Self {
            constant,
            terms: SmallVec::new(),
        }
    }
}

/// A size: `factor * product(atoms)`. A plain number has no atoms.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Size {
    /// What is known.
    pub factor: i64,
    /// What is not, sorted, each with at least one symbol.
    pub atoms: SmallVec<[Linear; 2]>,
}

impl Size {
    /// A size that is known.
    pub fn number(factor: i64) -> Self {
        Self {
            factor,
            atoms: SmallVec::new(),
        }
    }

    /// The value where symbol `i` is `point[i]`.
    pub fn at(&self, point: &[i64]) -> i64 {
        self.factor * self.atoms.iter().map(|a| a.at(point)).product::<i64>()
    }

    fn merged(&self, map: &[u32]) -> Self {
        let mut atoms: SmallVec<[Linear; 2]> = self.atoms.iter().map(|a| a.merged(map)).collect();
        atoms.sort_unstable();
        Self {
            factor: self.factor,
            atoms,
        }
    }

    /// Whether no symbol occurs.
    pub fn is_number(&self) -> bool {
        self.atoms.is_empty()
    }
}

/// What a graph says of sizes that only a launch knows.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    /// How many there are.
    pub count: usize,
    /// Of the numbers that the graph is called with, each one's expression.
    pub numbers: Vec<Size>,
    /// Of the tensors that it reads, each one's dimensions.
    pub tensors: Vec<Vec<Size>>,
    /// Of those that it writes.
    pub written: Vec<Vec<Size>>,
    /// All sizes of its values that are no number, sorted.
    pub atoms: Vec<Linear>,
    /// Numbers that occur in it.
    pub taken: Vec<i64>,
    /// What its calls are called.
    pub calls: Vec<String>,
}

impl Symbols {
    /// What the graph says where symbol `i` is the same as symbol `map[i]`.
    pub fn merged(&self, map: &[u32]) -> Self {
        let sizes = |list: &Vec<Size>| list.iter().map(|s| s.merged(map)).collect();
        let mut atoms: Vec<Linear> = self.atoms.iter().map(|a| a.merged(map)).collect();
        atoms.retain(|a| !a.terms.is_empty());
        atoms.sort_unstable();
        atoms.dedup();
        Self {
            numbers: sizes(&self.numbers),
            tensors: self.tensors.iter().map(sizes).collect(),
            written: self.written.iter().map(sizes).collect(),
            atoms,
            ..self.clone()
        }
    }

    /// The symbols' values, from the numbers and sizes that a call has; `None` where these do not
    /// tell them, or contradict what the graph says.
    pub fn solve(&self, given: &[(&Size, i64)]) -> Option<Vec<i64>> {
        let mut point: Vec<Option<i64>> = vec![None; self.count];
        for (size, value) in given {
            if let (1, [Linear { constant, terms }]) = (size.factor, size.atoms.as_slice())
                && let [(symbol, 1)] = terms.as_slice()
            {
                point[*symbol as usize].get_or_insert(value - constant);
            }
        }
        // What comes only as part of a product or with a factor.
        let known = |s: &u32, point: &[Option<i64>]| point[*s as usize].is_some();
        for (size, value) in given {
            let unknown = |a: &&Linear| a.terms.iter().any(|(s, _)| !known(s, &point));
            let mut open = size.atoms.iter().filter(unknown);
            let (Some(atom), None) = (open.next(), open.next()) else {
                continue;
            };
            let [(symbol, k)] = atom.terms.as_slice() else {
                continue;
            };
            let values: Vec<i64> = point.iter().map(|p| p.unwrap_or(1)).collect();
            let others = size.atoms.iter().filter(|a| *a != atom);
            let others: i64 = size.factor * others.map(|a| a.at(&values)).product::<i64>();
            let rest = value.checked_div(others)? - atom.constant;
            point[*symbol as usize] = Some(rest.checked_div(*k)?);
        }
        let point: Vec<i64> = point.into_iter().collect::<Option<_>>()?;
        given
            .iter()
            .all(|(size, n)| size.at(&point) == *n)
            .then_some(point)
    }
}
