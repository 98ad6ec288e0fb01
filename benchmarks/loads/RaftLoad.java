import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.locks.LockSupport;

import kafka.server.KafkaConfig;
import kafka.tools.TestRaftServer;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.BatchReader;
import org.apache.kafka.raft.LeaderAndEpoch;
import org.apache.kafka.raft.RaftClient;
import org.apache.kafka.raft.errors.BufferAllocationException;
import org.apache.kafka.server.util.ShutdownableThread;
import org.apache.kafka.snapshot.SnapshotReader;

/**
 * Kafka's TestRaftServer with a load of our own: its own reports no median, and only whole milliseconds.
 *
 * Arguments: a properties file and a directory id.  A process that becomes the leader prints "leads EPOCH".  For each line
 * "RATE WARM_UP_SECONDS SECONDS BYTES" it appends single records at that rate, and prints what a LoadResult holds.
 */
public class RaftLoad implements RaftClient.Listener<byte[]> {
    /** Base offset, and the time at which the record was due in nanoseconds, of each append that is not committed. */
    private final ArrayDeque<long[]> pending = new ArrayDeque<>();
    private final RaftClient<byte[]> client;
    private volatile int epoch = -1;
    private long[] latencies = new long[0];
    private int committed;
    private long measureFrom;

    private RaftLoad(RaftClient<byte[]> client) {
        this.client = client;
    }

    @SuppressWarnings("unchecked")
    public static void main(String[] arguments) throws Exception {
        Properties properties = Utils.loadProps(arguments[0]);
        properties.put("process.roles", "controller");
        KafkaConfig config = new KafkaConfig(properties, false);
        TestRaftServer server = new TestRaftServer(config, Uuid.fromString(arguments[1]), 1, 1);
        server.startup();
        // Its own workload starts when it leads, which takes longer than this.
        var workload = TestRaftServer.class.getDeclaredMethod("workloadGenerator");
        workload.setAccessible(true);
        Object generator = workload.invoke(server);
        RaftClient<byte[]> client = server.raftManager().client();
        client.unregister((RaftClient.Listener<byte[]>) generator);
        ((ShutdownableThread) generator).shutdown();
        RaftLoad load = new RaftLoad(client);
        client.register(load);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            double[] numbers = Arrays.stream(line.split(" ")).mapToDouble(Double::parseDouble).toArray();
            System.out.println(load.run(numbers[0], numbers[1], numbers[2], new byte[(int) numbers[3]]));
        }
        server.shutdown();
        System.exit(0);
    }

    private String run(double rate, double warmUpSeconds, double seconds, byte[] value) throws InterruptedException {
        int number = (int) (rate * (warmUpSeconds + seconds));
        long start = System.nanoTime();
        synchronized (pending) {
            latencies = new long[number];
            committed = 0;
            measureFrom = start + (long) (warmUpSeconds * 1e9);
        }
        int measured = 0;
        for (int sent = 0; sent < number; sent++) {
            long due = start + (long) (sent / rate * 1e9);
            while (System.nanoTime() < due) {
                LockSupport.parkNanos(due - System.nanoTime());
            }
            measured += due >= measureFrom ? 1 : 0;
            append(value, due);
        }
        synchronized (pending) {
            while (!pending.isEmpty()) {
                pending.wait();
            }
            double took = (System.nanoTime() - measureFrom) / 1e9;
            long[] ordered = Arrays.copyOf(latencies, committed);
            Arrays.sort(ordered);
            return String.format(
                "{\"client\": \"TestRaftServer\", \"operations\": %d, \"seconds\": %f, \"p50_ms\": %f, \"p75_ms\": %f, "
                    + "\"p90_ms\": %f, \"p99_ms\": %f, \"max_ms\": %f, \"client_cpu_us\": 0, \"all_operations\": %d}",
                measured, took, percentile(ordered, 50), percentile(ordered, 75), percentile(ordered, 90),
                percentile(ordered, 99), percentile(ordered, 100), number);
        }
    }

    private void append(byte[] value, long due) throws InterruptedException {
        while (true) {
            synchronized (pending) {
                try {
                    pending.add(new long[] {client.prepareAppend(epoch, List.of(value)), due});
                    break;
                } catch (BufferAllocationException full) {
                    pending.wait(1);
                }
            }
        }
        client.schedulePreparedAppend();
    }

    private static double percentile(long[] ordered, int percent) {
        return ordered[(int) Math.ceil(ordered.length * percent / 100.0) - 1] / 1e6;
    }

    @Override
    public void handleCommit(BatchReader<byte[]> reader) {
        try (reader) {
            while (reader.hasNext()) {
                Batch<byte[]> batch = reader.next();
                long now = System.nanoTime();
                synchronized (pending) {
                    while (!pending.isEmpty() && pending.peek()[0] <= batch.lastOffset()) {
                        long due = pending.poll()[1];
                        if (due >= measureFrom) {
                            latencies[committed++] = now - due;
                        }
                    }
                    pending.notifyAll();
                }
            }
        }
    }

    @Override
    public void handleLeaderChange(LeaderAndEpoch leader) {
        synchronized (pending) {
            if (!pending.isEmpty()) {
                System.err.println("the leadership moved during a load");
                Runtime.getRuntime().halt(1);
            }
        }
        epoch = leader.epoch();
        if (leader.isLeader(client.nodeId().getAsInt())) {
            System.out.println("leads " + epoch);
        }
    }

    @Override
    public void handleLoadSnapshot(SnapshotReader<byte[]> reader) {
        reader.close();
    }

    /** Newer versions of Kafka call it with the snapshot that the node was formatted with. */
    public void handleLoadBootstrap(SnapshotReader<byte[]> reader) {
        reader.close();
    }
}
