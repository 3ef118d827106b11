//! Metrics in the text format of Prometheus (0.0.4), for clients that do not read `OpenMetrics`.

use std::collections::HashSet;

pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The same metrics: there, a counter's type and help have the name of its samples, and there are no units.
pub(crate) fn prometheus_text(open_metrics: &str) -> String {
    let counter = |line: &'_ str| Some(line.strip_prefix("# TYPE ")?.strip_suffix(" counter")?.to_owned());
    let counters: HashSet<String> = open_metrics.lines().filter_map(counter).collect();
    let mut text = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines().filter(|line| !line.starts_with("# UNIT ") && *line != "# EOF") {
        let described = ["# HELP ", "# TYPE "].into_iter().find_map(|kind| Some((kind, line.strip_prefix(kind)?)));
        let described = described.and_then(|(kind, rest)| Some((kind, rest.split_once(' ')?)));
        match described.filter(|(_, (name, _))| counters.contains(*name)) {
            Some((kind, (name, rest))) => text.extend([kind, name, "_total ", rest, "\n"]),
            None => text.extend([line, "\n"]),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_the_name_of_their_samples() {
        let open_metrics = "# HELP a_seconds Time spent.\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\n\
                            a_seconds_total{x=\"# TYPE b counter\"} 1\n# HELP b B.\n# TYPE b gauge\nb 2\n# EOF\n";
        let expected = "# HELP a_seconds_total Time spent.\n# TYPE a_seconds_total counter\n\
                        a_seconds_total{x=\"# TYPE b counter\"} 1\n# HELP b B.\n# TYPE b gauge\nb 2\n";
        assert_eq!(prometheus_text(open_metrics), expected);
    }
}
