-- reads: trace
-- One row an event of a trace, messages aside, with what its details say as columns.
-- `at` is its place in the run, from 1 on; `process` counts a node's processes, `replica` is id and directory id.
-- `place` says for a human where the event stands: file and sequence.
-- `last_epoch` is the epoch of the last batch in the node's log, null where a restart or a truncation leaves it open.
-- `committed_end` is the highest high watermark that a leader of the run had by then.
-- `all_seen`: the run is a simulated one, with one clock, and of what happened up to there nothing is missing.
-- `unbroken`: the file has all events from its first to its last.
-- `is_gap`: before it events of that node are missing: they were lost, or the file begins in the middle of a process.
-- `log_known`: the trace has seen the node's log from its first record or snapshot on.
with files as (
    select run, file, count(*) = max(sequence) - min(sequence) + 1 as unbroken,
        min(sequence) = 0 and any_value(seed) is not null as of_one_clock
    from trace where error is null group by run, file
),
parsed as (
    select
        t.run, t.file, unbroken, unbroken and of_one_clock as all_seen, sequence, time_us, node, kind, epoch, role,
        leader, log_end, synced_end, high_watermark, voters, cause,
        from_json(
            details,
            'was string, base_offset bigint, next_offset bigint, record_epoch int, control boolean,
            voters_offsets array<bigint>, voters array<string>, `to` bigint, snapshot_id string, directory_id string,
            client string, number bigint, operation string, outcome string, offsets array<bigint>, via int,
            linearizable boolean, from_offset bigint, end_offset bigint, candidate string, pre_vote boolean,
            granted boolean, epoch int'
        ) as d
    from trace t join files f on f.run = t.run and f.file = t.file
    where error is null and kind <> 'message' and (kind <> 'log' or cause = 'vote requested')
),
placed as (
    select
        *,
        row_number() over (partition by run order by time_us, sequence, file) as at,
        case kind
            when 'append' then d.record_epoch
            when 'replace' then cast(split_part(d.snapshot_id, '@', 2) as int)
            when 'truncate' then -1
            when 'start' then -1
        end as set_epoch,
        case
            when kind = 'replace' or (kind = 'start' and log_end = 0) then true
            when kind = 'lost' or (kind <> 'start' and not coalesce(file = lag(file) over of_node, false)) then false
            when kind = 'start' and not coalesce(log_end <= lag(log_end) over of_node, false) then false
        end as set_log_known,
        kind = 'lost' or (kind <> 'start' and not coalesce(file = lag(file) over of_node, false)) as is_gap
    from parsed
    window of_node as (partition by run, node order by time_us, sequence, file)
)
select
    run, file, concat(substring_index(file, '/', -1), ', event ', sequence) as place, unbroken, all_seen, sequence, at, time_us,
    node, kind, epoch, role, leader, log_end, synced_end, high_watermark, voters, cause,
    coalesce(
        last_value(if(kind = 'start', d.directory_id, null)) ignore nulls over before_of_node, cast(node as string)
    ) as replica,
    count_if(kind = 'start') over before_of_node as process, is_gap,
    nullif(last_value(set_epoch) ignore nulls over before_of_node, -1) as last_epoch,
    coalesce(last_value(set_log_known) ignore nulls over before_of_node, false) as log_known,
    max(if(kind = 'high_watermark' and role = 'Leader', high_watermark, null)) over before_of_run as committed_end,
    d.was, d.base_offset, d.next_offset, d.record_epoch, d.control, d.voters_offsets, d.voters as voter_keys, d.to,
    cast(split_part(d.snapshot_id, '@', 1) as bigint) as snapshot_end, d.client, d.number, d.operation, d.outcome,
    d.offsets, d.via, d.linearizable, d.from_offset, d.end_offset, d.candidate, d.pre_vote, d.granted,
    d.epoch as vote_epoch
from placed
window
    before_of_node as (partition by run, node order by at),
    before_of_run as (partition by run order by at)
