//! Sizes that only a launch knows: what a graph says of them, and that its rows agree.
use crate::lower::{Item, Run, malformed};
use crate::{Argument, Extent, Graph, Node};
use tpu_hlo::{Builder, DType, Linear, Number, Size, Symbols};
use tpu_ops::{Error, Result};

impl Extent {
    /// The size.
    pub(crate) fn size(&self) -> Size {
        match self {
            Self::Known(n) => Size::number(*n),
            Self::Open { factor, atoms } => {
                let atom = |(constant, terms): &(i64, Vec<(u32, i64)>)| Linear {
                    constant: *constant,
                    terms: terms.iter().copied().collect(),
                };
                let mut atoms: Vec<Linear> = atoms.iter().map(atom).collect();
                atoms.sort_unstable();
                Size {
                    factor: *factor,
                    atoms: atoms.into(),
                }
            }
        }
    }
}

impl Graph {
    /// What the graph says of its open sizes; `None` where it has none.
    ///
    /// # Errors
    /// Why it has to be compiled for each size.
    pub fn open_sizes(&self) -> Option<std::result::Result<Symbols, String>> {
        if self.symbols == 0 {
            return None;
        }
        if let Some(why) = &self.exact {
            return Some(Err(why.clone()));
        }
        let mut symbols = Symbols {
            count: self.symbols,
            ..Symbols::default()
        };
        for node in &self.nodes {
            let sizes: Vec<Size> = node.sizes.iter().flatten().map(Extent::size).collect();
            let size = node.size.as_ref().map(Extent::size);
            if !is_small_enough(&sizes) {
                return Some(Err(format!("`aten::{}` has too many open sizes", node.op)));
            }
            for size in sizes.iter().chain(&size) {
                symbols.atoms.extend(size.atoms.iter().cloned());
                symbols.taken.push(size.factor);
            }
            match node.op.as_str() {
                "tensor" => symbols.tensors.push(sizes),
                "number" => symbols.numbers.push(size.unwrap_or(Size::number(0))),
                _ => node.args.iter().for_each(|a| ints(a, &mut symbols.taken)),
            }
            symbols.calls.push(node.op.clone());
        }
        let sizes = |node: &Node| node.sizes.iter().flatten().map(Extent::size).collect();
        let written = self.written.iter().filter_map(|node| self.nodes.get(*node));
        symbols.written = written.map(sizes).collect();
        symbols.atoms.sort_unstable();
        symbols.atoms.dedup();
        symbols.taken.sort_unstable();
        symbols.taken.dedup();
        Some(Ok(symbols))
    }
}

/// Whether 64 bits hold the number of elements at a generic point, and some more.
fn is_small_enough(sizes: &[Size]) -> bool {
    let numel = sizes
        .iter()
        .map(|s| s.factor as f64 * 9000_f64.powi(s.atoms.len() as i32));
    numel.product::<f64>() < 1e17
}

/// Numbers of an argument.
fn ints(arg: &Argument, list: &mut Vec<i64>) {
    match arg {
        Argument::Int(n) => list.push(*n),
        Argument::List(members) => members.iter().for_each(|a| ints(a, list)),
        _ => {}
    }
}

/// Python's arithmetic on numbers that only a launch knows, in float64.
pub(crate) fn arithmetic(
    b: &mut Builder,
    run: &Run<'_>,
    op: &str,
    args: &[Argument],
) -> Result<Item> {
    let mut values = Vec::with_capacity(args.len());
    for arg in args {
        let value = match run.scalar(arg) {
            Some(v) => v,
            None => match run.number(arg)? {
                Number::Int(n) if b.depends(n) => b.size_value(n)?,
                n => b.scalar(n, DType::F64),
            },
        };
        values.push(b.convert(value, DType::F64));
    }
    let value = match (op, values.as_slice()) {
        ("python.add", [x, y]) => b.add(*x, *y)?,
        ("python.sub", [x, y]) => b.subtract(*x, *y)?,
        ("python.mul", [x, y]) => b.multiply(*x, *y)?,
        ("python.truediv", [x, y]) => b.divide(*x, *y)?,
        ("python.pow", [x, y]) => b.power(*x, *y)?,
        ("python.neg", [x]) => b.negate(*x),
        ("python.float", [x]) => *x,
        ("python.max", [x, y]) => b.maximum(*x, *y)?,
        ("python.min", [x, y]) => b.minimum(*x, *y)?,
        _ => return Err(malformed(&format!("`{op}` on numbers"))),
    };
    Ok(Item::Scalar(b.weakened(value)))
}

/// Why a graph cannot be for a bucket, with the operator that says so.
pub(crate) fn named(b: &Builder, node: &Node, error: Error) -> Error {
    match b.is_padded() {
        true => Error::runtime(format!("`aten::{}`: {error}", node.op)),
        false => error,
    }
}

/// Whether what a row gave has the sizes that it had when the graph was traced, and no padding
/// shows in it.
pub(crate) fn agree(b: &mut Builder, node: &Node, item: &Item) -> Result<()> {
    let refuse = |why: &str| Err(Error::runtime(format!("`aten::{}`: {why}", node.op)));
    if let Some(fault) = b.take_fault() {
        return refuse(&fault);
    }
    match (item, &node.sizes, &node.size) {
        // What nothing reads may be left out, and come back as no element.
        (Item::Tensor(v), Some(sizes), _) if node.op != "tensor" && !b.is_undefined(*v) => {
            let dims = b.dims(*v);
            let sizes: Vec<Size> = sizes.iter().map(Extent::size).collect();
            let alike = sizes.len() == dims.len();
            if !alike || !dims.iter().zip(&sizes).all(|(n, size)| b.is_size(*n, size)) {
                let want: Vec<i64> = sizes.iter().map(|size| b.number_of(size)).collect();
                return refuse(&format!("its row gives {dims:?} where {want:?} was traced"));
            }
        }
        (Item::Number(Number::Int(n)), _, Some(size)) if *n != b.number_of(&size.size()) => {
            return Err(malformed("a size that is not what it was"));
        }
        _ => {}
    }
    Ok(())
}
