//! Dimensions that are larger than the tensors in them: programs for a bucket of sizes.
//!
//! While a program for a bucket is built, sizes that only a launch knows are evaluated at a
//! *generic point*: every symbol stands for a large number of no common divisor with any other
//! number of the program. Rows compute with such numbers as with any other; the builder tells from
//! a number which size it is, prints the capacity in its place, and masks where elements behind the
//! logical size would show. A row that looks at a size in another way than through its dimensions
//! gives another text at another point, by which it is found out ([`Builder::marks`]).
use crate::{Builder, DType, Dims, Error, Linear, Result, Slot, Type, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::cell::RefCell;

/// What a dimension consists of, outermost first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Factor {
    /// A number that is known.
    Known(i64),
    /// An atom, by position among [`Builder::atoms`].
    Atom(u32),
}

/// Factors of a dimension.
pub type Factors = SmallVec<[Factor; 3]>;

/// A linear size, and how much room it is given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Atom {
    /// The size.
    pub size: Linear,
    /// The room: the size is at most this.
    pub capacity: i64,
    /// Its number at the generic point.
    number: i64,
}

/// Numbers of merged dimensions whose factors are not in the usual order, all prime, start here.
const MERGED: i64 = 1_000_003;

#[derive(Default)]
pub(crate) struct Padding {
    atoms: Vec<Atom>,
    point: Vec<i64>,
    merged: Vec<(i64, Factors)>,
    known: RefCell<FxHashMap<i64, Option<Factors>>>,
    fault: Option<String>,
    marks: Vec<(usize, u32)>,
}

/// Ops of one shape, or that carry other values around; all else needs a rule of its own.
const EXACT: &[&str] = &[
    "abs",
    "acos",
    "acosh",
    "add",
    "and",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bessel_i1e",
    "bitcast_convert",
    "cbrt",
    "ceil",
    "clamp",
    "compare",
    "complex",
    "convert",
    "cosh",
    "cosine",
    "count_leading_zeros",
    "digamma",
    "divide",
    "erf",
    "erf_inv",
    "erfc",
    "exponential",
    "exponential_minus_one",
    "floor",
    "if",
    "imag",
    "is_finite",
    "lgamma",
    "log",
    "log_plus_one",
    "logistic",
    "maximum",
    "minimum",
    "multiply",
    "negate",
    "next_after",
    "not",
    "optimization_barrier",
    "or",
    "polygamma",
    "popcnt",
    "power",
    "real",
    "reduce_precision",
    "remainder",
    "return",
    "round_nearest_afz",
    "round_nearest_even",
    "rsqrt",
    "select",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "sign",
    "sine",
    "sinh",
    "sqrt",
    "subtract",
    "tan",
    "tanh",
    "while",
    "xor",
    "zeta",
    // Ruled by the builder's method.
    "broadcast_in_dim",
    "concatenate",
    "constant",
    "dot_general",
    "dynamic_slice",
    "dynamic_update_slice",
    "gather",
    "iota",
    "pad",
    "reduce",
    "reduce_window",
    "reshape",
    "scatter",
    "slice",
    "sort",
    "transpose",
];

impl Padding {
    fn is_off(&self) -> bool {
        self.atoms.is_empty()
    }

    /// Factors of the dimension `n` in their order; `None` where they cannot be told.
    fn factors(&self, n: i64) -> Option<Factors> {
        if self.is_off() || n <= 1 {
            return Some(smallvec::smallvec![Factor::Known(n)]);
        }
        if let Some(known) = self.known.borrow().get(&n) {
            return known.clone();
        }
        let found = self.factored(n);
        self.known.borrow_mut().insert(n, found.clone());
        found
    }

    fn factored(&self, n: i64) -> Option<Factors> {
        let (mut rest, mut list) = (n, Factors::new());
        for (number, factors) in &self.merged {
            while rest % number == 0 {
                rest /= number;
                list.extend_from_slice(factors);
            }
        }
        for (i, atom) in self.atoms.iter().enumerate() {
            while rest % atom.number == 0 {
                rest /= atom.number;
                list.push(Factor::Atom(i as u32));
            }
        }
        if rest != 1 || list.is_empty() {
            list.insert(0, Factor::Known(rest));
        }
        // Two atoms may share a divisor: then the number could be read in two ways.
        let unclear = |a: &Atom| rest > 1 && rest % large_divisor(a.number) == 0;
        (!self.atoms.iter().any(unclear)).then_some(list)
    }

    fn capacity(&self, n: i64) -> i64 {
        let Some(list) = self.factors(n) else {
            return n;
        };
        list.iter().map(|f| self.room(*f)).product()
    }

    fn room(&self, f: Factor) -> i64 {
        match f {
            Factor::Known(n) => n,
            Factor::Atom(i) => self.atoms[i as usize].capacity,
        }
    }

    fn number(&self, f: Factor) -> i64 {
        match f {
            Factor::Known(n) => n,
            Factor::Atom(i) => self.atoms[i as usize].number,
        }
    }

    /// The dimension that has these factors.
    fn dimension(&mut self, list: &[Factor]) -> i64 {
        let product: i64 = list.iter().map(|f| self.number(*f)).product();
        let usual = self.factors(product);
        if usual.as_deref() == Some(list) || list.is_empty() {
            return product;
        }
        let known = self.merged.iter().find(|(_, m)| m.as_slice() == list);
        if let Some((number, _)) = known {
            return *number;
        }
        let mut number = self.merged.last().map_or(MERGED, |(last, _)| last + 2);
        while large_divisor(number) != number {
            number += 2;
        }
        self.merged.push((number, Factors::from_slice(list)));
        self.known.borrow_mut().clear();
        number
    }

    /// Product of the factors, however they are ordered.
    fn plain(&self, n: i64) -> i64 {
        let list = self.factors(n).unwrap_or_default();
        if list.is_empty() {
            return n;
        }
        list.iter().map(|f| self.number(*f)).product()
    }

    fn fail(&mut self, why: impl Into<String>) {
        if self.fault.is_none() {
            self.fault = Some(why.into());
        }
    }
}

/// The largest prime divisor.
fn large_divisor(mut n: i64) -> i64 {
    let (mut largest, mut d) = (1, 2);
    while d * d <= n {
        while n % d == 0 {
            largest = d;
            n /= d;
        }
        d += 1;
    }
    largest.max(n)
}

/// A generic point for `symbols` symbols: one for `round` 0, another for 1. No atom's number then
/// shares a large divisor with one of `taken`, or with another atom's.
pub fn generic_point(symbols: usize, atoms: &[Linear], taken: &[i64], round: usize) -> Vec<i64> {
    let mut point = vec![1; symbols];
    let mut next = 5003 + 1000 * round as i64;
    for symbol in 0..symbols {
        // Those whose symbols all have their numbers by now.
        let ready = |a: &&Linear| a.terms.iter().map(|(s, _)| *s as usize).max() == Some(symbol);
        loop {
            point[symbol] = next;
            next += 1;
            let fits = |a: &Linear| {
                let n = a.at(&point);
                let p = large_divisor(n);
                n > 1
                    && p > 1000
                    && taken
                        .iter()
                        .all(|t| *t == 0 || (t % p != 0 && (t - n).abs() > 300))
            };
            if atoms.iter().filter(ready).all(fits) {
                break;
            }
        }
        next += 700;
    }
    point
}

impl Builder {
    /// Makes this the builder of a program for a bucket: `sizes` with their capacities, at the
    /// generic point `point`.
    pub fn set_sizes(&mut self, sizes: impl IntoIterator<Item = (Linear, i64)>, point: Vec<i64>) {
        let atom = |(size, capacity): (Linear, i64)| Atom {
            number: size.at(&point),
            size,
            capacity,
        };
        self.padding.atoms = sizes.into_iter().map(atom).collect();
        self.padding.point = point;
    }

    /// Whether there are sizes that only a launch knows.
    pub fn is_padded(&self) -> bool {
        !self.padding.is_off()
    }

    /// The sizes that only a launch knows.
    pub fn atoms(&self) -> &[Atom] {
        &self.padding.atoms
    }

    /// The number that a size has while this program is built.
    pub fn number_of(&self, size: &crate::Size) -> i64 {
        size.at(&self.padding.point)
    }

    /// Factors of a dimension; `None` where it is not clear which they are.
    pub fn factors(&self, n: i64) -> Option<Factors> {
        self.padding.factors(n)
    }

    /// Number of elements, in the numbers that sizes have while this program is built.
    pub fn numel(&self, v: Value) -> i64 {
        let dims = self.dims(v);
        dims.iter().map(|n| self.padding.plain(*n)).product()
    }

    /// Whether dimension `n` is that size, however its factors are ordered.
    pub fn is_size(&self, n: i64, size: &crate::Size) -> bool {
        self.padding.plain(n) == self.number_of(size)
    }

    /// Whether the n-th place of a dimension is that of its n-th element: nothing is padded but
    /// the outermost factor.
    pub fn is_in_order(&self, n: i64) -> bool {
        let known = |f: &Factor| matches!(f, Factor::Known(_));
        let inner = |list: Factors| list.iter().skip(1).all(known);
        !self.is_growing(n) || self.padding.factors(n).is_some_and(inner)
    }

    /// Whether a dimension may be larger than what is in it.
    pub fn is_growing(&self, n: i64) -> bool {
        let atom = |f: &Factor| matches!(f, Factor::Atom(_));
        self.is_padded()
            && self
                .padding
                .factors(n)
                .is_none_or(|list| list.iter().any(atom))
    }

    /// Whether a number that a row has computed depends on a size that only a launch knows.
    pub fn depends(&self, n: i64) -> bool {
        let size = |b: &Self| b.linear(n).is_none_or(|size| !size.terms.is_empty());
        self.is_padded() && (self.is_growing(n) || size(self))
    }

    pub(crate) fn atom(&self, n: i64) -> Option<u32> {
        match self.padding.factors(n)?.as_slice() {
            [Factor::Atom(i)] => Some(*i),
            _ => None,
        }
    }

    /// The atom, which may be new, that `size` is.
    pub(crate) fn atom_of(&mut self, size: Linear) -> Option<u32> {
        let known = self.padding.atoms.iter().position(|a| a.size == size);
        if let Some(i) = known {
            return Some(i as u32);
        }
        let alike = |a: &&Atom| a.size.terms == size.terms && a.size.constant >= size.constant;
        let capacity = self.padding.atoms.iter().find(alike)?.capacity;
        let number = size.at(&self.padding.point);
        if number <= 1 || large_divisor(number) <= 1000 {
            return None;
        }
        self.padding.known.borrow_mut().clear();
        self.padding.atoms.push(Atom {
            size,
            capacity,
            number,
        });
        Some(self.padding.atoms.len() as u32 - 1)
    }

    /// A number as a linear size: one that is known, an atom, or a neighbour of one.
    pub(crate) fn linear(&self, n: i64) -> Option<Linear> {
        if let Some(i) = self.atom(n) {
            return Some(self.padding.atoms[i as usize].size.clone());
        }
        let near = |a: &&Atom| a.size.terms.len() == 1 && (a.number - n).abs() < 256;
        if let Some(atom) = self.padding.atoms.iter().find(near) {
            let off = n - atom.number;
            return Some(atom.size.plus(&Linear::number(off)));
        }
        (!self.is_growing(n)).then(|| Linear::number(n))
    }

    /// The type as it is in memory.
    pub(crate) fn physical<'a>(&self, ty: &'a Type) -> Cow<'a, Type> {
        if self.padding.is_off() {
            return Cow::Borrowed(ty);
        }
        Cow::Owned(ty.with_dims(&self.capacities(&ty.dims)))
    }

    /// Dimensions as they are in memory.
    pub fn capacities(&self, dims: &[i64]) -> Dims {
        dims.iter().map(|n| self.padding.capacity(*n)).collect()
    }

    /// The dimension that has these factors.
    pub(crate) fn dimension(&mut self, list: &[Factor]) -> i64 {
        self.padding.dimension(list)
    }

    /// Says why the program cannot be for a bucket of sizes.
    pub fn refuse_padding(&mut self, why: impl Into<String>) {
        self.padding.fail(why);
    }

    /// What was found that padding would change; asked for once.
    pub fn take_fault(&mut self) -> Option<String> {
        self.padding.fault.take()
    }

    /// Notes that what follows is of the call `node`.
    pub fn mark(&mut self, node: u32) {
        if let Some(at) = self.body_len() {
            self.padding.marks.push((at, node));
        }
    }

    /// Where the text of each call begins: of two programs at two generic points, a text that
    /// differs belongs to a row that looks at a size.
    pub fn marks(&self) -> &[(usize, u32)] {
        &self.padding.marks
    }

    /// Looks at an op that is about to be appended.
    pub(crate) fn expect_exact(&mut self, op: &str, operands: &[Value], types: &[Type]) {
        if self.padding.is_off() {
            return;
        }
        let name = op.rsplit('.').next().unwrap_or(op);
        let growing = |b: &Self, ty: &Type| ty.dims.iter().any(|n| b.is_growing(*n));
        let any = operands.iter().any(|v| growing(self, self.ty(*v)));
        if (any || types.iter().any(|ty| growing(self, ty))) && !EXACT.contains(&name) {
            self.padding
                .fail(format!("`{name}` has no rule for padded sizes"));
        }
        let unclear = |ty: &Type| ty.dims.iter().any(|n| self.padding.factors(*n).is_none());
        if types.iter().any(unclear) {
            self.padding.fail("a size is not clear");
        }
    }

    /// The value of a size, of dtype `dtype`.
    pub(crate) fn atom_value(&mut self, atom: u32, dtype: DType) -> Value {
        self.param(Slot::Size(atom), Type::scalar(dtype))
    }

    /// The run-time value of a number that rows compute with, as an `I64` scalar; a constant where
    /// it is one.
    ///
    /// # Errors
    /// [`Error::Padded`] where it is not clear which size the number is.
    pub fn size_value(&mut self, n: i64) -> Result<Value> {
        if !self.is_growing(n) {
            return match self.linear(n) {
                Some(size) => self.linear_value(size, DType::I64),
                None => Ok(self.scalar(n, DType::I64)),
            };
        }
        let list = self.padding.factors(n).ok_or(UNCLEAR)?;
        let mut value = None;
        for f in list {
            let v = match f {
                Factor::Known(n) => self.scalar(n, DType::I64),
                Factor::Atom(i) => self.atom_value(i, DType::I64),
            };
            value = Some(match value {
                Some(x) => self.multiply(x, v)?,
                None => v,
            });
        }
        value.ok_or(UNCLEAR)
    }

    /// A text in which numbers that are sizes are written as `{size 3}`, 3 being the atom's place.
    pub fn named_sizes(&self, text: &str) -> String {
        let mut named = String::new();
        for part in text.split_inclusive(|c: char| !c.is_ascii_digit()) {
            let digits = part.trim_end_matches(|c: char| !c.is_ascii_digit());
            let atom = digits.parse().ok().and_then(|n| self.atom(n));
            match atom {
                Some(atom) => {
                    named += &format!("{{size {atom}}}{}", &part[digits.len()..]);
                }
                None => named += part,
            }
        }
        named
    }

    /// The number, which gives way in type promotion like [`Builder::number`]'s.
    ///
    /// # Errors
    /// As [`Builder::size_value`].
    pub fn weak_size(&mut self, n: i64) -> Result<Value> {
        let value = self.size_value(n)?;
        Ok(self.weakened(value))
    }

    /// A value of `x`'s type, each element the number `n` that rows compute with: a size, or a
    /// product of sizes.
    ///
    /// # Errors
    /// As [`Builder::size_value`].
    pub fn size_like(&mut self, x: Value, n: i64) -> Result<Value> {
        if n < 0 && self.depends(-n) {
            let value = self.size_like(x, -n)?;
            return Ok(self.negate(value));
        }
        if !self.depends(n) {
            let n = if self.dtype(x).is_int() {
                n.into()
            } else {
                crate::Number::Float(n as f64)
            };
            return Ok(self.full_like(x, n));
        }
        let Type { dtype, dims } = self.ty(x).clone();
        let value = self.size_value(n)?;
        let value = self.convert(value, dtype);
        self.broadcast(value, &dims)
    }
}

const UNCLEAR: Error = Error::Padded {
    op: "a size",
    why: "which one is not clear",
};

#[cfg(test)]
mod tests;
