-- reads: trace
-- One row per event of a trace, without messages, with its details as columns.
-- `at`: position in the run, from 1. `process` counts a node's processes. `replica` is id and directory id.
-- `part` counts stretches that certainly belong to one process: where events are missing, a simulated node may have
-- restarted.
-- `place`: the event's file and sequence, for people.
-- `last_epoch`: epoch of the last batch in the node's log; null if a restart or a truncation leaves it open.
-- `committed_end`: the highest high watermark that a leader of the run had so far.
-- `all_seen`: the run is simulated, with one clock, and no event is missing so far.
-- `unbroken`: the file has all events from its first to its last.
-- `is_gap`: events of that node are missing before this one. They were lost, the file begins in the middle of a
-- process, or a process may have found another log than the one before it left, as far as the trace shows.
-- `log_known`: the trace shows the node's log from its first record or snapshot.
-- A real node's clock may be set back between two processes. So its events follow the order of its files: by name if
-- they are FILE.1, FILE.2, … FILE, otherwise by when they begin. Their times only order events of different nodes.
with named as (
    select *, regexp_extract(file, '^(.*?)([.][0-9]+)?$', 1) as name,
        try_cast(substr(regexp_extract(file, '[.][0-9]+$', 0), 2) as bigint) as number
    from (
        select run, file, count(*) = max(sequence) - min(sequence) + 1 as unbroken,
            min(sequence) = 0 and any_value(seed) is not null as of_one_clock, min(time_us) as began_us
        from trace where error is null group by run, file
    )
),
files as (
    select *, row_number() over (partition by run order by name_began_us, name, number nulls last, began_us, file) as file_at
    from (select *, min(began_us) over (partition by run, name) as name_began_us from named)
),
numbered as (
    -- How many events of the file are missing before this one: the number grows at each gap.
    select *, sequence - dense_rank() over (partition by run, file order by sequence) as missing
    from trace where error is null
),
parsed as (
    select
        t.run, t.file, file_at, missing, seed is not null as is_simulated, unbroken,
        unbroken and of_one_clock as all_seen, sequence, time_us, node, kind, epoch, role,
        leader, log_end, synced_end, high_watermark, voters, cause,
        from_json(
            details,
            'was string, base_offset bigint, next_offset bigint, record_epoch int, control boolean,
            voters_offsets array<bigint>, voters array<string>, targets array<string>, `to` bigint, snapshot_id string, directory_id string,
            client string, number bigint, operation string, outcome string, offsets array<bigint>, via int,
            linearizable boolean, from_offset bigint, end_offset bigint, candidate string, pre_vote boolean,
            granted boolean, epoch int'
        ) as d
    from numbered t join files f on f.run = t.run and f.file = t.file
    where kind <> 'message' and (kind <> 'log' or cause = 'vote requested')
),
followed as (
    select
        *,
        max(time_us) over of_node as not_before_us,
        not coalesce(file = lag(file) over of_node, false) as is_first_of_file,
        coalesce(file = lag(file) over of_node and missing <> lag(missing) over of_node, false) as is_behind_hole,
        kind = 'start' and case
            when log_end = 0 then true
            when is_simulated then log_end <= lag(log_end) over of_node
            -- A kill can remove the last events of a process from its trace, and a process may have written no trace.
            else log_end <= lag(high_watermark) over of_node
                or (log_end = lag(log_end) over of_node and lag(kind) over of_node = 'end')
        end as is_log_known_still
    from parsed
    window of_node as (partition by run, node order by file_at, sequence)
),
placed as (
    select
        *,
        row_number() over (partition by run order by not_before_us, file_at, sequence) as at,
        case kind
            when 'append' then d.record_epoch
            when 'replace' then cast(split_part(d.snapshot_id, '@', 2) as int)
            when 'truncate' then -1
            when 'start' then -1
        end as set_epoch,
        kind = 'lost' or is_behind_hole or (kind <> 'start' and is_first_of_file)
            or (kind = 'start' and not coalesce(is_log_known_still, false)) as is_gap,
        kind = 'start' or is_first_of_file as is_first_of_process
    from followed
),
counted as (
    select *, count_if(is_first_of_process) over before_of_node as process,
        count_if(is_first_of_process or (is_behind_hole and is_simulated)) over before_of_node as part
    from placed
    window before_of_node as (partition by run, node order by at)
)
select
    run, file, concat(substring_index(file, '/', -1), ', event ', sequence) as place, unbroken, all_seen, sequence, at, time_us,
    node, kind, epoch, role, leader, log_end, synced_end, high_watermark, voters, cause,
    coalesce(max(if(kind = 'start', d.directory_id, null)) over of_part, cast(node as string)) as replica,
    process, part, is_gap,
    nullif(last_value(set_epoch) ignore nulls over before_of_node, -1) as last_epoch,
    coalesce(
        last_value(
            case
                when kind = 'replace' or (kind = 'start' and log_end = 0) then true
                when is_gap then false
            end
        ) ignore nulls over before_of_node,
        false
    ) as log_known,
    max(if(kind = 'high_watermark' and role = 'Leader', high_watermark, null)) over before_of_run as committed_end,
    d.was, d.base_offset, d.next_offset, d.record_epoch, d.control, d.voters_offsets, d.voters as voter_keys,
    coalesce(d.targets, array()) as targets, d.to,
    cast(split_part(d.snapshot_id, '@', 1) as bigint) as snapshot_end, d.client, d.number, d.operation, d.outcome,
    d.offsets, d.via, d.linearizable, d.from_offset, d.end_offset, d.candidate, d.pre_vote, d.granted,
    d.epoch as vote_epoch
from counted
window
    before_of_node as (partition by run, node order by at),
    of_part as (partition by run, node, part),
    before_of_run as (partition by run order by at)
