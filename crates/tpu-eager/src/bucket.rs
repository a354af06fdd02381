//! Graphs whose sizes only a launch knows: one program for a bucket of sizes.
use crate::{
    Arg, Call, Context, Kernel, Outcome, Result, Tensor,
    gather::{Gathered, Input},
    lower::{Entry, Lowered, Lowering},
    padded::{Extent, Room, order_of, with_room},
    runtime::Runtime,
};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::Arc;
use tpu_hlo::{
    Atom, Builder, Dims, Factor, Linear, Size, Slot, Symbols, Type, Value, generic_point,
};
use tpu_obs::{Buckets, settings};
use tpu_ops::{Arg as OpArg, Error as OpError};

/// The open sizes of a graph, and what came of them.
#[derive(Debug)]
pub(crate) struct Open {
    symbols: Symbols,
    told: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    exact: Option<String>,
    /// Ways to see the symbols that the graph cannot be lowered in.
    refused: Vec<Vec<u32>>,
    ways: Vec<Arc<Way>>,
    capacities: Vec<Vec<i64>>,
}

/// The symbols of a graph, some taken for the same: Dynamo gives two inputs of one size a symbol
/// each where nothing that it traced compared them.
#[derive(Debug)]
struct Way {
    map: Vec<u32>,
    symbols: Symbols,
}

/// What a graph's open sizes came to.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Why each size has a program of its own, if that is so.
    pub exact: Option<String>,
    /// For each program for a bucket its capacities, without repetitions.
    pub capacities: Vec<Vec<i64>>,
}

impl Open {
    pub(crate) fn new(symbols: std::result::Result<Symbols, String>) -> Self {
        let (symbols, exact) = match symbols {
            Ok(symbols) => (symbols, None),
            Err(why) => (Symbols::default(), Some(why)),
        };
        let told = State {
            exact,
            ..State::default()
        };
        Self {
            symbols,
            told: Mutex::new(told),
        }
    }

    pub(crate) fn told(&self) -> Told {
        let state = self.told.lock();
        Told {
            exact: state.exact.clone().filter(|_| state.ways.is_empty()),
            capacities: state.capacities.clone(),
        }
    }

    /// How to see the symbols that have the values `point`, by what is known so far.
    fn way(&self, point: &[i64]) -> Option<Arc<Way>> {
        let state = self.told.lock();
        let holds = |way: &&Arc<Way>| {
            let mut pairs = way.map.iter().enumerate();
            pairs.all(|(i, to)| point[i] == point[*to as usize])
        };
        if let Some(way) = state.ways.iter().find(holds) {
            return Some(Arc::clone(way));
        }
        if self.symbols.count == 0 {
            return None;
        }
        let apart: Vec<u32> = (0..point.len() as u32).collect();
        let first = |n: &i64| point.iter().position(|other| other == n).unwrap_or(0) as u32;
        let equal: Vec<u32> = point.iter().map(first).collect();
        let map = [apart, equal]
            .into_iter()
            .find(|m| !state.refused.contains(m))?;
        let symbols = self.symbols.merged(&map);
        Some(Arc::new(Way { map, symbols }))
    }

    fn refuse(&self, way: &Way, why: String) {
        let mut state = self.told.lock();
        state.exact.get_or_insert(why);
        state.refused.push(way.map.clone());
    }

    fn accept(&self, bucket: &Bucket) {
        let mut state = self.told.lock();
        if !state.ways.iter().any(|way| way.map == bucket.way.map) {
            state.ways.push(Arc::clone(&bucket.way));
        }
        let mut rooms = bucket.capacities.clone();
        rooms.sort_unstable();
        rooms.dedup();
        if !state.capacities.contains(&rooms) {
            state.capacities.push(rooms);
        }
    }
}

/// The sizes of a call, and the room that they are given.
struct Bucket {
    way: Arc<Way>,
    /// Values of the symbols.
    point: Vec<i64>,
    /// For each atom of the graph.
    capacities: Vec<i64>,
}

/// Factors of a tensor's dimensions, from the slowest to the fastest in memory.
type Split = Vec<(usize, SmallVec<[Extent; 3]>)>;

impl Bucket {
    /// `None` where the arguments do not tell the sizes, or a size is 0 or larger than any bucket.
    fn of(open: &Open, args: &[Arg<'_>], buckets: &Buckets) -> Option<Self> {
        let (numbers, tensors) = inputs(args);
        let mut given: Vec<(&Size, i64)> = Vec::new();
        given.extend(open.symbols.numbers.iter().zip(numbers.iter().copied()));
        for (sizes, t) in open.symbols.tensors.iter().zip(tensors) {
            given.extend(sizes.iter().zip(t.as_ref()?.sizes.iter().copied()));
        }
        let point = open.symbols.solve(&given)?;
        let way = open.way(&point)?;
        let atoms = &way.symbols.atoms;
        let values: Vec<i64> = atoms.iter().map(|a| a.at(&point)).collect();
        if values.iter().any(|n| *n < 1) {
            return None;
        }
        // Sizes that differ by a number share a capacity: what a call gives, the next one takes.
        let largest = |atom: &Linear| {
            let alike = atoms.iter().zip(&values);
            let alike = alike.filter(|(other, _)| other.terms == atom.terms);
            alike.map(|(_, n)| *n).max()
        };
        let rooms = atoms.iter().map(|a| buckets.capacity(largest(a)?));
        Some(Self {
            capacities: rooms.collect::<Option<_>>()?,
            point,
            way,
        })
    }

    fn symbols(&self) -> &Symbols {
        &self.way.symbols
    }

    fn extents(&self, size: &Size) -> SmallVec<[Extent; 3]> {
        let known = Extent {
            size: size.factor,
            room: size.factor,
            open: false,
        };
        let mut list = SmallVec::from_slice(&[known]);
        for atom in &size.atoms {
            let at = self.symbols().atoms.binary_search(atom);
            list.push(Extent {
                size: atom.at(&self.point),
                room: at.map_or(0, |i| self.capacities[i]),
                open: true,
            });
        }
        list
    }

    fn split(&self, t: &Tensor<'_>, sizes: &[Size]) -> Split {
        let order = order_of(t).unwrap_or_else(|| (0..t.sizes.len()).collect());
        let extents = |d: &usize| (*d, self.extents(&sizes[*d]));
        order.iter().map(extents).collect()
    }
}

fn room_of(split: &Split) -> Room {
    Room::of(
        split
            .iter()
            .flat_map(|(_, extents)| extents.iter().copied()),
    )
}

fn inputs<'s, 'a>(args: &'s [Arg<'a>]) -> (&'s [i64], &'s [Option<Tensor<'a>>]) {
    let numbers = match args.get(2) {
        Some(Arg::Ints(list)) => list.as_slice(),
        _ => &[],
    };
    (numbers, tensors(args, 3))
}

fn tensors<'s, 'a>(args: &'s [Arg<'a>], index: usize) -> &'s [Option<Tensor<'a>>] {
    match args.get(index) {
        Some(Arg::Tensors(list)) => list.as_slice(),
        _ => &[],
    }
}

fn is_open(sizes: &[Size]) -> bool {
    !sizes.iter().all(Size::is_number)
}

/// A graph lowered at a generic point.
struct Attempt {
    lowered: Lowered,
    body: String,
    marks: Vec<(usize, u32)>,
    drawn: u64,
}

impl<'a> Call<'_, 'a> {
    /// Runs a graph whose sizes are open in the program for their bucket; `None` where they have to
    /// have one of their own.
    pub(crate) fn run_in_bucket(
        &self,
        runtime: &Runtime,
        context: &Context,
    ) -> Result<Option<Outcome>> {
        let Some(open) = self.kernel.open.as_ref() else {
            return Ok(None);
        };
        let Some(bucket) = Bucket::of(open, self.args, &settings::buckets()) else {
            return Ok(None);
        };
        let Some(mut gathered) = self.gather_in_bucket(&bucket, context)? else {
            return Ok(None);
        };
        let mut why = None;
        let entry = self.entry(runtime, &mut gathered, |call, context| {
            call.lower_in_bucket(&bucket, context)
                .inspect_err(|error| why = Some(error.to_string()))
        });
        if let Some(why) = why {
            open.refuse(&bucket.way, why);
            return self.run_in_bucket(runtime, context);
        }
        let entry = entry?;
        open.accept(&bucket);
        let entry = entry.at(&bucket.point);
        gathered.sizes = entry
            .atoms
            .iter()
            .map(|a| a.size.at(&bucket.point))
            .collect();
        let mut cells = self.launch(runtime, &mut gathered, &entry)?;
        // Tensors of open sizes that the graph writes come last among the new ones.
        let fresh = self.kernel.plan.fresh;
        let open_targets = self.targets(&bucket).filter(|(_, sizes)| is_open(sizes));
        let written = cells.drain(fresh.min(cells.len())..);
        for ((target, _), cell) in open_targets.zip(written) {
            if let Some((buffer, Some(room))) = cell.map(|c| c.held()).transpose()?.flatten() {
                target.cell.set_padded(buffer, room);
            }
        }
        Ok(Some(Outcome::Done(Arc::new(entry), cells)))
    }

    /// Which sizes the program of a graph is for, for people.
    pub(crate) fn sizes_of(&self, entry: &Entry) -> String {
        let Some(open) = &self.kernel.open else {
            return String::new();
        };
        if entry.atoms.is_empty() {
            let why = open.told.lock().exact.clone();
            let why = why.unwrap_or_else(|| "no bucket is large enough".into());
            return format!("for these alone: {why}");
        }
        let mut rooms: Vec<i64> = entry.atoms.iter().map(|a| a.capacity).collect();
        rooms.sort_unstable();
        rooms.dedup();
        let rooms: Vec<String> = rooms.iter().map(i64::to_string).collect();
        format!("for a bucket: up to {}", rooms.join(" and "))
    }

    /// The tensors that the graph writes, with their sizes.
    fn targets<'s>(
        &'s self,
        bucket: &'s Bucket,
    ) -> impl Iterator<Item = (&'s Tensor<'a>, &'s [Size])> {
        let targets = tensors(self.args, 4).iter().flatten();
        targets.zip(bucket.symbols().written.iter().map(Vec::as_slice))
    }

    fn gather_in_bucket(&self, bucket: &Bucket, context: &Context) -> Result<Option<Gathered<'a>>> {
        let mut g = Gathered::empty(self.kernel, context);
        g.bucket(bucket.capacities.iter().copied());
        g.bucket(bucket.way.map.iter().map(|s| i64::from(*s)));
        for (t, sizes) in inputs(self.args).1.iter().zip(&bucket.symbols().tensors) {
            match t {
                None => return Ok(None),
                Some(t) if !is_open(sizes) => g.tensor(t),
                Some(t) => {
                    let split = bucket.split(t, sizes);
                    let room = room_of(&split);
                    let buffer = with_room(t, &room, &split)?;
                    g.padded(t, buffer, split.iter().map(|(d, _)| *d));
                }
            }
        }
        for (t, sizes) in self.targets(bucket) {
            match order_of(t) {
                _ if !is_open(sizes) => g.target(t),
                Some(order) => g.written_whole(t, &order),
                None => return Ok(None),
            }
        }
        Ok(Some(g))
    }

    /// The program for a bucket. It is lowered at two generic points: a row whose text depends on
    /// the point has looked at a size, and may be wrong for others.
    fn lower_in_bucket(&self, bucket: &Bucket, context: &Context) -> Result<Lowered> {
        let (one, other) = (
            self.attempt(bucket, context, 0)?,
            self.attempt(bucket, context, 1)?,
        );
        let texts = |a: &Attempt| {
            (
                a.lowered.module.text.clone(),
                a.lowered.entry.checks.clone(),
                a.drawn,
            )
        };
        let shapes = |a: &Attempt| {
            a.lowered
                .entry
                .fresh
                .iter()
                .map(|f| f.as_ref().map(|f| f.open.clone()))
                .collect::<Vec<_>>()
        };
        if texts(&one) == texts(&other) && shapes(&one) == shapes(&other) {
            return Ok(one.lowered);
        }
        let calls = &bucket.symbols().calls;
        let at = differs(&one, &other).and_then(|node| calls.get(node as usize));
        let name = at.map_or("the graph", String::as_str);
        Err(OpError::runtime(format!("`aten::{name}` has no rule for padded sizes")).into())
    }

    fn attempt(&self, bucket: &Bucket, context: &Context, round: usize) -> Result<Attempt> {
        let symbols = bucket.symbols();
        let mut taken = [symbols.taken.as_slice(), &bucket.capacities].concat();
        for t in inputs(self.args).1.iter().flatten() {
            let known = |n: &&i64| !bucket.point.contains(n);
            taken.extend(t.sizes.iter().filter(known));
        }
        let point = generic_point(symbols.count, &symbols.atoms, &taken, round);
        let point: Vec<i64> = bucket.way.map.iter().map(|s| point[*s as usize]).collect();
        let mut l = Lowering::new(context);
        let rooms = symbols
            .atoms
            .iter()
            .cloned()
            .zip(bucket.capacities.iter().copied());
        l.b.set_sizes(rooms, point.clone());
        let mut list = Vec::new();
        for (t, sizes) in inputs(self.args).1.iter().zip(&symbols.tensors) {
            let Some(t) = t else { continue };
            let v = if is_open(sizes) {
                l.padded(t, &bucket.split(t, sizes), sizes, &point)?
            } else {
                l.tensor(t)?
            };
            list.push(Some(v));
        }
        let numbers = symbols.numbers.iter().map(|n| n.at(&point)).collect();
        let known: Vec<_> = self
            .targets(bucket)
            .map(|(t, sizes)| (!is_open(sizes)).then(|| l.target(t)))
            .collect();
        let args = [OpArg::Ints(numbers), OpArg::Tensors(list)];
        let outs = self.kernel.plan.op.lower(&mut l.b, &args)?;
        let (fresh, written) = outs.split_at(self.kernel.plan.fresh);
        let (mut sorted, mut kept, mut last) = (fresh.to_vec(), Vec::new(), Vec::new());
        for ((v, target), (t, _)) in written.iter().zip(known).zip(self.targets(bucket)) {
            match target {
                Some(target) => {
                    last.push(*v);
                    kept.push(target);
                }
                None => {
                    let order: Dims = order_of(t)
                        .into_iter()
                        .flatten()
                        .map(|d| d as i64)
                        .collect();
                    l.b.set_order(*v, &order);
                    sorted.push(*v);
                }
            }
        }
        sorted.extend(last);
        let (body, marks) = (l.b.text().to_owned(), l.b.marks().to_vec());
        let drawn = l.b.drawn();
        let lowered = l.finish(self.kernel, sorted.into(), &kept)?;
        Ok(Attempt {
            lowered,
            body,
            marks,
            drawn,
        })
    }
}

/// The first call whose text differs.
fn differs(one: &Attempt, other: &Attempt) -> Option<u32> {
    let part = |a: &Attempt, i: usize| {
        let end = a.marks.get(i + 1).map_or(a.body.len(), |(at, _)| *at);
        a.marks.get(i).map(|(at, _)| a.body[*at..end].to_owned())
    };
    let mut places = 0..one.marks.len().max(other.marks.len());
    let first = places.find(|i| part(one, *i) != part(other, *i))?;
    one.marks.get(first).map(|(_, node)| *node)
}

impl<'a> Lowering<'a> {
    /// A tensor whose buffer has room.
    fn padded(
        &mut self,
        t: &Tensor<'a>,
        split: &Split,
        sizes: &[Size],
        point: &[i64],
    ) -> Result<Value> {
        let slot = self.inputs.add(Input::padded(t, None));
        self.operands.push((t.sizes.into(), t.strides.into()));
        let ty = Type::new(t.dtype, &room_of(split).dims());
        let base = self.b.param(Slot::Buffer(slot), ty);
        let dims: Dims = split.iter().map(|(d, _)| sizes[*d].at(point)).collect();
        let x = self.b.as_padded(base, &dims)?;
        let place = |d: usize| split.iter().position(|(e, _)| *e == d).unwrap_or(d) as i64;
        let permutation: Dims = (0..sizes.len()).map(place).collect();
        let x = self.b.transpose(x, &permutation)?;
        self.conjugated(t, x)
    }
}

/// Dimensions of a result that are known at launch only: the factors of each, and the order in
/// which they lie in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    factors: Vec<SmallVec<[Factor; 3]>>,
    order: crate::layout::Order,
}

impl Shape {
    /// That of a value; `None` if all its sizes are known.
    pub(crate) fn of(b: &Builder, v: Value, order: &[usize]) -> Option<Self> {
        let dims = b.dims(v);
        dims.iter().any(|n| b.is_growing(*n)).then(|| Self {
            factors: dims
                .iter()
                .map(|n| b.factors(*n).unwrap_or_default())
                .collect(),
            order: order.into(),
        })
    }

    /// Dimensions of the buffer.
    pub(crate) fn room(&self, atoms: &[Atom], point: &[i64]) -> Room {
        let extent = |f: &Factor| match f {
            Factor::Known(n) => Extent {
                size: *n,
                room: *n,
                open: false,
            },
            Factor::Atom(i) => Extent {
                size: atoms[*i as usize].size.at(point),
                room: atoms[*i as usize].capacity,
                open: true,
            },
        };
        let factors = self.order.iter().flat_map(|d| &self.factors[*d]);
        Room::of(factors.map(extent))
    }

    fn sizes(&self, atoms: &[Atom], point: &[i64]) -> Dims {
        let size = |f: &Factor| match f {
            Factor::Known(n) => *n,
            Factor::Atom(i) => atoms[*i as usize].size.at(point),
        };
        self.factors
            .iter()
            .map(|list| list.iter().map(size).product())
            .collect()
    }
}

impl Entry {
    /// The entry with the sizes that results have where the symbols have these values.
    fn at(&self, point: &[i64]) -> Self {
        let mut entry = self.clone();
        for fresh in entry.fresh.iter_mut().flatten() {
            if let Some(shape) = &fresh.open {
                fresh.sizes = shape.sizes(&entry.atoms, point);
                fresh.strides = crate::layout::strides(&fresh.sizes, &shape.order);
                fresh.nbytes = fresh.sizes.iter().product::<i64>() as usize * fresh.dtype.size();
                fresh.room = Some(Arc::new(shape.room(&entry.atoms, point)));
            }
        }
        for message in entry.checks.iter_mut().filter(|m| m.contains("{size ")) {
            let sized = entry
                .atoms
                .iter()
                .enumerate()
                .fold(message.to_string(), |text, (i, a)| {
                    text.replace(&format!("{{size {i}}}"), &a.size.at(point).to_string())
                });
            *message = sized.into();
        }
        entry
    }
}

impl Kernel {
    /// What a graph's open sizes came to; `None` where it has none.
    pub fn told(&self) -> Option<Told> {
        self.open.as_ref().map(Open::told)
    }
}
