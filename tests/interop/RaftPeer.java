import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;

import kafka.server.KafkaConfig;
import kafka.tools.TestRaftServer;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.BatchReader;
import org.apache.kafka.raft.LeaderAndEpoch;
import org.apache.kafka.raft.RaftClient;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.server.util.ShutdownableThread;
import org.apache.kafka.snapshot.SnapshotReader;
import org.apache.kafka.snapshot.SnapshotWriter;

/**
 * Kafka's TestRaftServer that appends what it is told, instead of a load.
 *
 * Arguments: a properties file and a directory id.  It prints "leader ID EPOCH" for each leader, -1 for none.  It
 * answers each line of stdin with one line that begins with the number of the line:
 *
 * "append VALUE" with "committed", or "lost" if it does not lead or another leader may have replaced the record;
 * "propose VALUE" with "proposed" or "lost", without waiting;
 * "snapshot" with "taken END EPOCH", or "lost" if nothing is committed.
 */
public class RaftPeer implements RaftClient.Listener<byte[]> {
    private final RaftClient<byte[]> client;
    private final List<byte[]> values = new ArrayList<>();
    private LeaderAndEpoch leader = LeaderAndEpoch.UNKNOWN;
    /** Exclusive end, and epoch, of what is committed. */
    private long end;
    private int endEpoch;

    private RaftPeer(RaftClient<byte[]> client) {
        this.client = client;
    }

    @SuppressWarnings("unchecked")
    public static void main(String[] arguments) throws Exception {
        Properties properties = Utils.loadProps(arguments[0]);
        TestRaftServer server = new TestRaftServer(
            new KafkaConfig(properties, false), Uuid.fromString(arguments[1]), 1, 1);
        server.startup();
        Runtime.getRuntime().addShutdownHook(new Thread(server::shutdown));
        // Its own load starts when it leads, which takes longer than this.
        var method = TestRaftServer.class.getDeclaredMethod("workloadGenerator");
        method.setAccessible(true);
        Object load = method.invoke(server);
        RaftClient<byte[]> client = server.raftManager().client();
        client.unregister((RaftClient.Listener<byte[]>) load);
        ((ShutdownableThread) load).shutdown();
        RaftPeer peer = new RaftPeer(client);
        client.register(peer);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        int number = 0;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", 2);
            System.out.println(++number + " " + peer.answer(words[0], words.length < 2 ? "" : words[1]));
        }
        server.awaitShutdown();
    }

    private synchronized String answer(String command, String value) throws Exception {
        if (command.equals("snapshot")) {
            return snapshot();
        }
        int epoch = leader.epoch();
        long offset;
        try {
            offset = client.prepareAppend(epoch, List.of(value.getBytes(StandardCharsets.UTF_8)));
        } catch (RuntimeException noLeader) {
            return "lost";
        }
        client.schedulePreparedAppend();
        if (command.equals("propose")) {
            return "proposed";
        }
        while (end <= offset && leader.epoch() == epoch) {
            wait();
        }
        return end > offset && endEpoch == epoch ? "committed" : "lost";
    }

    private String snapshot() throws Exception {
        try (SnapshotWriter<byte[]> writer = client.createSnapshot(new OffsetAndEpoch(end, endEpoch), 0).get()) {
            for (byte[] value : values) {
                writer.append(List.of(value));
            }
            writer.freeze();
        } catch (RuntimeException nothing) {
            return "lost";
        }
        return "taken " + end + " " + endEpoch;
    }

    @Override
    public synchronized void handleCommit(BatchReader<byte[]> reader) {
        try (reader) {
            while (reader.hasNext()) {
                Batch<byte[]> batch = reader.next();
                values.addAll(batch.records());
                end = batch.lastOffset() + 1;
                endEpoch = batch.epoch();
            }
        }
        notifyAll();
    }

    @Override
    public synchronized void handleLeaderChange(LeaderAndEpoch found) {
        leader = found;
        System.out.println("leader " + found.leaderId().orElse(-1) + " " + found.epoch());
        notifyAll();
    }

    @Override
    public synchronized void handleLoadSnapshot(SnapshotReader<byte[]> reader) {
        try (reader) {
            values.clear();
            while (reader.hasNext()) {
                values.addAll(reader.next().records());
            }
            end = reader.lastContainedLogOffset() + 1;
            endEpoch = reader.lastContainedLogEpoch();
        }
        notifyAll();
    }

    /** Newer versions of Kafka call it with the snapshot that the node was formatted with. */
    public void handleLoadBootstrap(SnapshotReader<byte[]> reader) {
        reader.close();
    }
}
