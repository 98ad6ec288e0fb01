-- invariant: 9
-- title: the high watermark of a process never falls
-- reads: events
-- observes: events where kind = 'high_watermark'
-- severity: error
-- a row: a process lowers its high watermark.
with marks as (
    select *, max(struct(high_watermark, place)) over (
        partition by run, node, part order by at rows between unbounded preceding and 1 preceding
    ) as highest
    from events where node is not null and high_watermark is not null
)
select run as cluster, replica as subject,
    concat(highest.place, ': the high watermark of ', replica, ' is ', highest.high_watermark) as fact_a,
    concat(place, ': it is ', high_watermark) as fact_b
from marks where high_watermark < highest.high_watermark
