//! Queries on their way to the devices: what rows are compared with where they are encoded.
//!
//! A device that can do it (`EncoderSpec::scores`) sends scores back instead of vectors, where all jobs of a batch want no
//! more: for one query four bytes a row instead of a kilobyte, which nobody has to write, look at and compare on the thread
//! that owns all devices. Where some job wants vectors, the batch has vectors, and rows are compared here.

use super::{Batches, JobId, RowTarget};
use crate::encoder::Batch;
use crate::encoder::cosine::cosine;

/// Queries that rows are compared with.
#[derive(Debug)]
pub(crate) struct Queries {
    /// One behind the other, of length one each, or zero.
    vectors: Vec<f32>,
    dimension: usize,
}

/// Whose queries stand where in a batch; nothing where it has none and its rows come as vectors.
#[derive(Debug, Default)]
pub(crate) struct QueryOffsets {
    of: Vec<(JobId, usize, usize)>,
}

impl Queries {
    /// Vectors that are not empty, and as long as each other.
    pub(crate) fn new(vectors: &[Vec<f32>]) -> Self {
        let unit = |vector: &Vec<f32>| {
            let length = vector.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
            #[expect(clippy::cast_possible_truncation, reason = "values are single precision to begin with")]
            let scaled = move |value: &f32| if length > 0.0 { (f64::from(*value) / length) as f32 } else { 0.0 };
            vector.iter().map(scaled).collect::<Vec<f32>>()
        };
        let dimension = vectors.first().map_or(1, Vec::len);
        Self { vectors: vectors.iter().flat_map(unit).collect(), dimension }
    }

    /// How many there are.
    pub(crate) const fn count(&self) -> usize {
        self.vectors.len() / self.dimension
    }

    /// How like a row's vector is to each; in the place of what `scores` held.
    fn compare(&self, vector: &[f32], scores: &mut Vec<f32>) {
        scores.clear();
        scores.extend(self.vectors.chunks_exact(self.dimension).map(|query| cosine(query, 1.0, vector)));
    }
}

impl QueryOffsets {
    fn find(&self, job: JobId) -> Option<(usize, usize)> {
        self.of.iter().find(|(known, ..)| *known == job).map(|(_, start, end)| (*start, *end))
    }
}

impl<Done> Batches<Done> {
    /// Gives a batch the queries of its rows' jobs, at most so many, where all of them have some; else none.
    pub(crate) fn ask(&self, targets: &[RowTarget], most: usize, batch: &mut Batch, columns: &mut QueryOffsets) {
        batch.queries.clear();
        columns.of.clear();
        let mut count = 0;
        for target in targets {
            if columns.of.last().is_some_and(|(job, ..)| *job == target.job) || columns.find(target.job).is_some() {
                continue;
            }
            let queries = self.jobs.get(&target.job).and_then(|active| active.job.queries.as_deref());
            let Some(queries) = queries.filter(|queries| count + queries.count() <= most) else {
                batch.queries.clear();
                columns.of.clear();
                return;
            };
            columns.of.push((target.job, count, count + queries.count()));
            count += queries.count();
            batch.queries.extend_from_slice(&queries.vectors);
        }
    }

    /// Writes what came back of a row into its job's memory; a job that is gone has none.
    pub(crate) fn write(&mut self, target: RowTarget, values: &[f32], columns: &QueryOffsets) {
        let Self { jobs, scores, .. } = self;
        let Some(active) = jobs.get_mut(&target.job) else { return };
        let values = match (&active.job.queries, columns.find(target.job)) {
            (None, _) => values,
            (Some(_), Some((start, end))) => &values[start..end],
            (Some(queries), None) => {
                queries.compare(values, scores);
                scores
            }
        };
        active.job.vectors.write(target.row, active.job.rows.len(), values);
        active.missing -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::tests::jobs;
    use super::*;
    use crate::encoder::Budget;

    /// The queries of a batch of all rows, where each job of one row has so many, and whose they are.
    fn asked(counts: &[usize], most: usize) -> (Vec<f32>, Vec<usize>) {
        let mut batches = jobs(&vec![(1, 0); counts.len()]);
        let (mut batch, mut targets, mut columns) = (Batch::default(), Vec::new(), QueryOffsets::default());
        for (job, count) in counts.iter().enumerate() {
            let id = JobId(u64::try_from(job).unwrap());
            let vectors = vec![vec![f32::from(u16::try_from(job + 1).unwrap())]; *count];
            let queries = (*count > 0).then(|| Arc::new(Queries { vectors: vectors.concat(), dimension: 1 }));
            batches.jobs.get_mut(&id).unwrap().job.queries = queries;
        }
        let budget = Budget { tokens: 100, rows: 100 };
        assert!(batches.next_batch(0, budget, &mut batch, &mut targets).is_some());
        batches.ask(&targets, most, &mut batch, &mut columns);
        let widths = (0..counts.len()).map(|job| columns.find(JobId(u64::try_from(job).unwrap())));
        (batch.queries, widths.map(|found| found.map_or(0, |(start, end)| end - start)).collect())
    }

    #[test]
    fn a_batch_has_the_queries_of_all_its_jobs_or_none() {
        assert_eq!(asked(&[1, 2], 3), (vec![1.0, 2.0, 2.0], vec![1, 2]));
        assert_eq!(asked(&[1, 2], 2), (Vec::new(), vec![0, 0]));
        assert_eq!(asked(&[1, 0, 1], 100), (Vec::new(), vec![0, 0, 0]));
    }

    #[test]
    fn queries_have_length_one_or_none() {
        let queries = Queries::new(&[vec![3.0, 4.0], vec![0.0, 0.0]]);
        assert_eq!((queries.count(), queries.vectors.as_slice()), (2, [0.6, 0.8, 0.0, 0.0].as_slice()));
        let mut scores = Vec::new();
        queries.compare(&[0.0, 2.0], &mut scores);
        assert_eq!(scores, [0.8, 0.0]);
    }
}
