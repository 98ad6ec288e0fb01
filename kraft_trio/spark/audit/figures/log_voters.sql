-- reads: log_control
-- Voter sets over time, by the times of the Voters records.
select distinct cluster, unix_micros(timestamp) / 1e6 as began_s, transform(voter_ids, id -> cast(id as string)) as voters
from log_control where type = 'Voters' and array_contains(:clusters, cluster) order by cluster, began_s
