-- reads: log_batches
-- One row a batch that does not go on where the batch before it in its log ends, or is of a lower epoch.
with followed as (
    select cluster, directory, replica, place, base_offset, epoch,
        lag(struct(last_offset, epoch, place)) over (partition by cluster, directory order by order) as before
    from log_batches
)
select * from followed
where base_offset is not null and before.last_offset is not null
    and (base_offset <> before.last_offset + 1 or epoch < before.epoch)
