//! What is added to the scores of attention: numbers by the distance of a query and a key, or products of either with a
//! vector of their distance.

use std::sync::Arc;

use crate::attention::Heads;
use crate::memory::AlignedBuffer;
use crate::product::{Element, Operand, WordMatrix, product, with_tile};
use crate::vector::{MAX_LANES, Simd, Tile};

/// For all heads of a layer.
#[derive(Clone, Copy, Debug)]
pub enum ScoreBias<'model> {
    Distance(&'model DistanceBias),
    Contents(&'model DistanceTables),
}

/// A number for each head and distance.
#[derive(Debug)]
pub struct DistanceBias {
    /// `[heads, distances]`, from the key that is farthest before the query.
    values: Vec<f32>,
    longest: usize,
}

impl DistanceBias {
    /// For rows of at most `longest` tokens. `value` is that of a head and a key's position minus the query's.
    pub fn new(heads: usize, longest: usize, value: impl Fn(usize, isize) -> f32) -> Self {
        let mut bias = Self { values: Vec::new(), longest };
        let (stride, farthest) = (bias.stride(), longest.cast_signed() - 1);
        bias.values.reserve(heads * stride);
        for head in 0..heads {
            bias.values.extend((-farthest..=farthest).map(|distance| value(head, distance)));
            bias.values.resize((head + 1) * stride, 0.0);
        }
        bias
    }

    /// Registers are read beyond the last key.
    const fn stride(&self) -> usize {
        2 * self.longest - 1 + MAX_LANES
    }

    /// Of a head's query, from the first key on.
    #[inline(always)]
    fn of_query(&self, head: usize, query: usize) -> &[f32] {
        &self.values[head * self.stride() + self.longest - 1 - query..]
    }
}

/// The row of a table for each distance.
#[derive(Debug)]
pub struct TableRows {
    /// From the key that is farthest before the query.
    rows: Vec<u32>,
    longest: usize,
}

impl TableRows {
    /// For texts of at most `longest` tokens. `row` is that of the query's position minus the key's.
    pub fn new(longest: usize, row: impl Fn(isize) -> usize) -> Self {
        let farthest = longest.cast_signed() - 1;
        #[expect(clippy::cast_possible_truncation, reason = "tables have far fewer rows")]
        let rows = (-farthest..=farthest).map(|after| row(-after) as u32).collect();
        Self { rows, longest }
    }

    /// Of a query, from a key on.
    #[inline(always)]
    fn of_query(&self, query: usize, key: usize) -> &[u32] {
        &self.rows[self.longest - 1 - query + key..]
    }
}

/// The keys and the queries of distances, which queries and keys are multiplied with
/// (<https://arxiv.org/abs/2006.03654>, section 3.1).
#[derive(Debug)]
pub struct DistanceTables {
    /// Words of each head: `[heads, words of a head, stride]`, and so are `queries`. Empty where there are none.
    keys: AlignedBuffer,
    queries: AlignedBuffer,
    /// Rows of the table, with padding to full registers: the columns of both.
    columns: usize,
    /// Words of a head.
    depth: usize,
    rows: Arc<TableRows>,
}

impl DistanceTables {
    /// `tables` are the scaled queries of distances, and the keys: `[rows, heads, width]`.
    pub fn new<E: Element>(heads: Heads, tables: &[Option<Vec<f32>>; 2], rows: Arc<TableRows>) -> Self {
        let (depth, row) = (heads.width / E::PER_WORD, heads.count * heads.width);
        let count = tables.iter().flatten().map(|table| table.len() / row).max().unwrap_or(0);
        let columns = count.next_multiple_of(MAX_LANES);
        let mut found =
            Self { keys: AlignedBuffer::default(), queries: AlignedBuffer::default(), columns, depth, rows };
        let stride = found.stride();
        for (buffer, table) in [&mut found.queries, &mut found.keys].into_iter().zip(tables) {
            let Some(table) = table else { continue };
            let words: &mut [u32] = buffer.slice_mut(heads.count * depth * stride);
            for (column, values) in table.chunks_exact(row).enumerate() {
                let of_row = values.chunks_exact(E::PER_WORD).zip(words.chunks_exact_mut(stride));
                of_row.for_each(|(values, words)| words[column] = E::word(values));
            }
        }
        found
    }

    /// One more register keeps the words of a distance out of each other's lines in the first cache.
    const fn stride(&self) -> usize {
        self.columns + MAX_LANES
    }
}

/// Buffers for one head, used again for the next one.
#[derive(Debug, Default)]
pub struct BiasScratch {
    /// Products of queries with keys of distances, `[queries, stride]`.
    of_queries: AlignedBuffer,
    /// Products of keys with queries of distances, `[keys, stride]`.
    of_keys: AlignedBuffer,
}

/// For one head of a row.
#[derive(Debug)]
pub enum HeadBias<'row> {
    None,
    Distance { bias: &'row DistanceBias, head: usize },
    Contents { tables: &'row DistanceTables, of_queries: &'row [f32], of_keys: &'row [f32] },
}

impl<'row> ScoreBias<'row> {
    /// Multiplies what a head's queries and keys are compared with. Both are given with their number.
    #[inline(always)]
    pub fn of_head<S: Simd, E: Element>(
        self,
        simd: S,
        head: usize,
        queries: (WordMatrix<'_>, usize),
        keys: (WordMatrix<'_>, usize),
        scratch: &'row mut BiasScratch,
    ) -> HeadBias<'row> {
        let tables = match self {
            Self::Distance(bias) => return HeadBias::Distance { bias, head },
            Self::Contents(tables) => tables,
        };
        let BiasScratch { of_queries, of_keys } = scratch;
        let of_queries = tables.multiply::<S, E>(simd, queries, tables.keys.words(), head, of_queries);
        let of_keys = tables.multiply::<S, E>(simd, keys, tables.queries.words(), head, of_keys);
        HeadBias::Contents { tables, of_queries, of_keys }
    }
}

impl DistanceTables {
    /// Products of `count` rows with each column of a head's table: `[count, stride]`, or nothing without the table.
    #[inline(always)]
    fn multiply<'out, S: Simd, E: Element>(
        &self,
        simd: S,
        (rows, count): (WordMatrix<'_>, usize),
        table: &[u32],
        head: usize,
        output: &'out mut AlignedBuffer,
    ) -> &'out [f32] {
        if table.is_empty() {
            return &[];
        }
        let (depth, stride, tile) = (self.depth, self.stride(), S::TILE.rows());
        let table = &table[head * depth * stride..][..depth * stride];
        let output: &mut [f32] = output.slice_mut(count * stride);
        for first in (0..self.columns).step_by(S::TILE.registers() * S::LANES) {
            let registers = S::TILE.registers().min((self.columns - first) / S::LANES);
            let right = WordMatrix { words: &table[first..], stride };
            if count < tile {
                for row in 0..count {
                    for register in 0..registers {
                        let right = WordMatrix { words: &right.words[register * S::LANES..], stride };
                        let output = &mut output[row * stride + first + register * S::LANES..];
                        multiply_tile::<S, E, 1, 1>(simd, from_row(rows, row), right, depth, output);
                    }
                }
                continue;
            }
            for row in (0..count).step_by(tile) {
                // The last tile begins earlier: some rows are computed twice, to the same result.
                let row = row.min(count - tile);
                let output = &mut output[row * stride + first..];
                with_tile!(S::TILE, registers, multiply_tile::<S, E>(simd, from_row(rows, row), right, depth, output));
            }
        }
        output
    }
}

#[inline(always)]
fn from_row(matrix: WordMatrix<'_>, row: usize) -> WordMatrix<'_> {
    WordMatrix { words: &matrix.words[row * matrix.stride..], ..matrix }
}

#[inline(always)]
fn multiply_tile<S: Simd, E: Element, const ROWS: usize, const REGISTERS: usize>(
    simd: S,
    left: WordMatrix<'_>,
    right: WordMatrix<'_>,
    depth: usize,
    output: &mut [f32],
) {
    let sums = product::<S, E::Product, ROWS, REGISTERS>(simd, left, right, depth);
    for (row, sums) in sums.into_iter().enumerate() {
        for (register, sum) in sums.into_iter().enumerate() {
            simd.store(&mut output[row * right.stride + register * S::LANES..], E::Product::to_floats(simd, sum));
        }
    }
}

impl HeadBias<'_> {
    /// Adds to a query's scores of the keys from `start` on.
    #[inline(always)]
    pub fn add<S: Simd>(&self, simd: S, query: usize, start: usize, scores: &mut [f32]) {
        match self {
            Self::None => {}
            Self::Distance { bias, head } => {
                let bias = &bias.of_query(*head, query)[start..];
                for (scores, bias) in scores.chunks_exact_mut(S::LANES).zip(bias.chunks_exact(S::LANES)) {
                    let score = simd.add(simd.load(scores), simd.load(bias));
                    simd.store(scores, score);
                }
            }
            Self::Contents { tables, of_queries, of_keys } => {
                let (rows, stride) = (tables.rows.of_query(query, start), tables.stride());
                if let Some(products) = of_queries.chunks_exact(stride).nth(query) {
                    scores.iter_mut().zip(rows).for_each(|(score, row)| *score += products[*row as usize]);
                }
                // Padding has no keys.
                let keys = of_keys.get(start * stride..).unwrap_or_default().chunks_exact(stride);
                for ((score, row), products) in scores.iter_mut().zip(rows).zip(keys) {
                    *score += products[*row as usize];
                }
            }
        }
    }
}
