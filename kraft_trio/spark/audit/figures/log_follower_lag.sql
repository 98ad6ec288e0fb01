-- reads: log_spans, log_snapshots
-- Where each replica's log begins and ends.
select cluster, directory, replica, log_start, log_end, batches, bytes from log_spans
where array_contains(:clusters, cluster) and log_end is not null order by cluster, directory
