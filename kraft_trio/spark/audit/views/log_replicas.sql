-- reads: replicas, limits, log_spans, log_snapshots, log_newest_voters
-- One row per directory, with what it holds: the log's start and end (exclusive), the epoch at its end, and the newest
-- whole snapshot. `end` is what both reach; null for an empty replica. `longest` is the end of the longest log of the
-- cluster, `span` the offsets that this log holds, and `lag` what the directory lacks of it.
-- `max_lag` and `expect_voters` are the limits that the audit was given.
with snapshots as (
    select cluster, directory, max(struct(end_offset, epoch)) as newest from log_snapshots
    where valid and end_offset > 0 group by cluster, directory
),
voters as (
    select distinct cluster, voter from log_newest_voters
),
held as (
    select coalesce(r.cluster_id, 'unknown') as cluster, r.directory, r.node, r.directory_id, r.error, r.last_segment,
        r.index_offset, r.producers_offset,
        coalesce(concat_ws('-', r.node, r.directory_id), r.directory) as replica, l.log_start, l.whole_end as log_end,
        l.last_epoch as epoch, l.last_place, s.newest.end_offset as snapshot_end, s.newest.epoch as snapshot_epoch,
        greatest(l.whole_end, s.newest.end_offset) as end
    from replicas r
    left join log_spans l on l.cluster = coalesce(r.cluster_id, 'unknown') and l.directory = r.directory
    left join snapshots s on s.cluster = coalesce(r.cluster_id, 'unknown') and s.directory = r.directory
),
longest as (
    select cluster, max(log_end) as longest, max_by(directory, struct(log_end, directory)) as longest_directory,
        max_by(log_end - log_start, struct(log_end, directory)) as span
    from held where log_end is not null group by cluster
)
select h.*, w.longest, w.longest_directory, w.span, greatest(w.longest - coalesce(h.end, 0), 0) as lag,
    v.voter is not null as is_voter, m.max_lag, m.expect_voters
from held h cross join limits m
left join longest w on w.cluster = h.cluster
left join voters v on v.cluster = h.cluster and v.voter in (h.replica, cast(h.node as string))
