-- invariant: 11
-- title: a record commits only once a majority of its own voter set has synced it
-- reads: voters_at_work, events
-- observes: voters_at_work where all_seen and kind = 'high_watermark'
-- severity: error
-- a row: a leader's high watermark covers a record that no majority of the newest voter set in its log has synced. A
-- voter counts if it had synced that far with a log whose last batch has the leader's epoch, or an epoch that its
-- trace does not show (after a restart).
with commits as (
    select run, at, place, replica, epoch, high_watermark, newest
    from voters_at_work where kind = 'high_watermark' and all_seen and size(newest) > 0
),
asked as (
    select run, at, epoch, high_watermark, explode(newest) as who from commits
),
facts as (
    select run, explode(array(replica, cast(node as string))) as who, at, last_epoch as epoch, synced_end
    from events where kind in ('sync', 'start', 'replace')
),
known as (
    select *, max(synced_end) over (partition by run, who, epoch order by at) as highest
    from (
        select run, who, epoch, at, synced_end, cast(null as bigint) as high_watermark
        from facts where epoch is not null
        union all
        select run, who, epoch, at, null, high_watermark from asked
    )
),
holders as (
    select run, at, high_watermark, who from known where high_watermark is not null and highest >= high_watermark
    union
    select a.run, a.at, a.high_watermark, a.who
    from asked a join facts f
        on f.run = a.run and f.who = a.who and f.epoch is null and f.at < a.at and f.synced_end >= a.high_watermark
),
counted as (
    select c.*, coalesce(h.holders, array()) as holders
    from commits c
    left join (select run, at, array_sort(collect_set(who)) as holders from holders group by all) h
        on h.run = c.run and h.at = c.at
)
select run as cluster, concat('offset ', high_watermark - 1) as subject,
    concat(place, ': ', replica, ' leads epoch ', epoch, ' and takes its log up to offset ', high_watermark,
        ' for committed') as fact_a,
    concat('of the voters ', array_join(newest, ', '), ' only {', array_join(holders, ', '), '} have synced that')
        as fact_b
from counted where 2 * size(holders) <= size(newest)
