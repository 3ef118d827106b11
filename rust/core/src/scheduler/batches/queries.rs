//! The queries of a batch, with which a device compares its rows.
//!
//! If all jobs of a batch want cosines only, and the device can compute them (`Capabilities::cosines`), it returns
//! cosines instead of vectors. For one query that is four bytes for each row instead of a kilobyte, which the
//! scheduler's thread need not copy, check and compare. If some job wants vectors, the batch returns vectors and the
//! scheduler compares rows itself.

use super::{Batches, JobId, RowTarget, Wanted};
use crate::encoder::cosine::cosine;
use crate::encoder::{Batch, Output};

#[derive(Debug)]
pub(crate) struct BatchQueries {
    /// Concatenated. Each has length one, or is zero.
    vectors: Vec<f32>,
    dimension: usize,
}

/// The range of each job's queries in a batch; empty where its rows return vectors.
#[derive(Debug, Default)]
pub(crate) struct QueryOffsets {
    ranges: Vec<(JobId, usize, usize)>,
}

impl BatchQueries {
    /// Scales vectors to unit length.
    pub(crate) fn new<'query>(vectors: impl Iterator<Item = &'query [f32]>, dimension: usize) -> Self {
        let unit = |vector: &[f32]| {
            let length = vector.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
            #[expect(clippy::cast_possible_truncation, reason = "values are single precision to begin with")]
            let scaled = move |value: &f32| if length > 0.0 { (f64::from(*value) / length) as f32 } else { 0.0 };
            vector.iter().map(scaled).collect::<Vec<f32>>()
        };
        Self { vectors: vectors.flat_map(unit).collect(), dimension }
    }

    pub(crate) const fn count(&self) -> usize {
        self.vectors.len() / self.dimension
    }

    /// Replaces `scores` with the vector's cosine with each query.
    pub(super) fn compare(&self, vector: &[f32], scores: &mut Vec<f32>) {
        scores.clear();
        scores.extend(self.vectors.chunks_exact(self.dimension).map(|query| cosine(query, 1.0, vector)));
    }
}

impl QueryOffsets {
    /// The batch's queries.
    pub(super) fn count(&self) -> usize {
        self.ranges.last().map_or(0, |(.., end)| *end)
    }

    pub(super) fn find(&self, job: JobId) -> Option<(usize, usize)> {
        self.ranges.iter().find(|(known, ..)| *known == job).map(|(_, start, end)| (*start, *end))
    }
}

impl<R> Batches<R> {
    /// Adds the queries of the batch's jobs if every job has some and they are at most `max_queries` together; else
    /// none.
    pub(super) fn add_queries(
        &self,
        targets: &[RowTarget],
        max_queries: usize,
        batch: &mut Batch,
        offsets: &mut QueryOffsets,
    ) {
        batch.queries.clear();
        offsets.ranges.clear();
        let mut count = 0;
        for target in targets {
            if offsets.ranges.last().is_some_and(|(job, ..)| *job == target.job) || offsets.find(target.job).is_some() {
                continue;
            }
            let queries = match self.jobs.get(&target.job).map(|active| &active.job.wanted) {
                Some(Wanted::Cosines(queries)) if count + queries.count() <= max_queries => queries,
                _ => {
                    batch.queries.clear();
                    offsets.ranges.clear();
                    return;
                }
            };
            offsets.ranges.push((target.job, count, count + queries.count()));
            count += queries.count();
            batch.queries.extend_from_slice(&queries.vectors);
        }
        batch.output = Output::Cosines;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::BatchRows;
    use super::super::tests::jobs;
    use super::*;
    use crate::encoder::BatchBudget;

    /// Batches jobs of one row each with these numbers of queries. Returns the batch's queries, and each job's number
    /// of them.
    fn batch_queries(counts: &[usize], max_queries: usize) -> (Vec<f32>, Vec<usize>) {
        let mut batches = jobs(&vec![(1, 0); counts.len()]);
        let (mut batch, mut rows) = (Batch::default(), BatchRows::default());
        for (job, count) in counts.iter().enumerate() {
            let id = JobId(u64::try_from(job).unwrap());
            let vectors = vec![vec![f32::from(u16::try_from(job + 1).unwrap())]; *count];
            if *count > 0 {
                let queries = Arc::new(BatchQueries { vectors: vectors.concat(), dimension: 1 });
                batches.jobs.get_mut(&id).unwrap().job.wanted = Wanted::Cosines(queries);
            }
        }
        let budget = BatchBudget { tokens: 100, rows: 100 };
        assert!(batches.next_batch(0, budget, max_queries, &mut batch, &mut rows).is_some());
        assert_eq!(batch.output == Output::Cosines, !batch.queries.is_empty());
        let ranges = (0..counts.len()).map(|job| rows.offsets.find(JobId(u64::try_from(job).unwrap())));
        (batch.queries, ranges.map(|range| range.map_or(0, |(start, end)| end - start)).collect())
    }

    #[test]
    fn a_batch_has_the_queries_of_all_its_jobs_or_none() {
        assert_eq!(batch_queries(&[1, 2], 3), (vec![1.0, 2.0, 2.0], vec![1, 2]));
        assert_eq!(batch_queries(&[1, 2], 2), (Vec::new(), vec![0, 0]));
        assert_eq!(batch_queries(&[1, 0, 1], 100), (Vec::new(), vec![0, 0, 0]));
    }

    #[test]
    fn queries_have_unit_length_or_are_zero() {
        let queries = BatchQueries::new([[3.0, 4.0], [0.0, 0.0]].iter().map(|query| &query[..]), 2);
        assert_eq!((queries.count(), queries.vectors.as_slice()), (2, [0.6, 0.8, 0.0, 0.0].as_slice()));
        let mut scores = Vec::new();
        queries.compare(&[0.0, 2.0], &mut scores);
        assert_eq!(scores, [0.8, 0.0]);
    }
}
