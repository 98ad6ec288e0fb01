-- invariant: 8
-- title: applied <= high watermark <= log end
-- reads: events
-- observes: events where high_watermark is not null
-- severity: error
-- a row: a state machine received records at or above its node's high watermark, or the high watermark lies above the
-- log's end.
select run as cluster, replica as subject,
    concat(place, ': the high watermark of ', replica, ' is ', coalesce(string(high_watermark), 'unknown')) as fact_a,
    case
        when kind = 'apply' then concat(place, ': it applies its log up to offset ', next_offset)
        when kind = 'load' then concat(place, ': its state machine loads a snapshot that ends at ', `to`)
    end as fact_b
from events
where (kind = 'apply' and next_offset > coalesce(high_watermark, 0))
    or (kind = 'load' and `to` > coalesce(high_watermark, 0))
union all
select run, replica, concat(place, ': the high watermark of ', replica, ' is ', high_watermark),
    concat(place, ': its log ends at ', log_end)
from events where kind <> 'end' and high_watermark > log_end
