-- title: no replica ends far behind the longest log
-- reads: log_replicas
-- observes: log_replicas where longest is not null
-- severity: warning
-- a row: a directory ends more than --max-lag offsets before the longest log of its cluster. Without that option, 100
-- offsets and a tenth of that log are allowed, whichever is more, because a node may have been stopped for long; with
-- it, the violation is an error. Empty replicas are reported by log_has_records.
select cluster, replica as subject,
    concat(longest_directory, ': the log ends at offset ', longest) as fact_a,
    concat(directory, ': the log ends at offset ', end, ', ', lag, ' before it') as fact_b
from log_replicas where error is null and end is not null and lag > coalesce(max_lag, greatest(100, span div 10))
