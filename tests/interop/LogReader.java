import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.zip.CRC32;
import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;
import org.apache.kafka.common.protocol.Writable;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.Records;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.ControlRecord;
import org.apache.kafka.raft.internals.RecordsIterator;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.server.common.serialization.RecordSerde;
import org.apache.kafka.snapshot.FileRawSnapshotReader;
import org.apache.kafka.snapshot.RecordsSnapshotReader;
import org.apache.kafka.snapshot.SnapshotReader;

/**
 * Reads the logs and snapshots that stdin names as a voter of Kafka does.
 *
 * Prints a line `file PATH` for each, a line for each of its batches, and `end`, or `failed` with the error.
 */
public class LogReader {
    static final int MAX_BATCH = 8 * 1024 * 1024;

    static class Bytes implements RecordSerde<byte[]> {
        public int recordSize(byte[] data, ObjectSerializationCache cache) {
            return data.length;
        }

        public void write(byte[] data, ObjectSerializationCache cache, Writable out) {
            out.writeByteArray(data);
        }

        public byte[] read(Readable input, int size) {
            return input.readArray(size);
        }
    }

    /** Older versions take fewer arguments. */
    static Object[] taken(int count, Object... all) {
        return java.util.Arrays.copyOf(all, count);
    }

    @SuppressWarnings("unchecked")
    static RecordsIterator<byte[]> log(Records records) throws Exception {
        Constructor<?> constructor = RecordsIterator.class.getConstructors()[0];
        return (RecordsIterator<byte[]>) constructor.newInstance(taken(constructor.getParameterCount(),
            records, new Bytes(), BufferSupplier.create(), MAX_BATCH, true, new LogContext()));
    }

    @SuppressWarnings("unchecked")
    static SnapshotReader<byte[]> snapshot(Path path) throws Exception {
        String[] id = path.getFileName().toString().split("[-.]");
        FileRawSnapshotReader raw = FileRawSnapshotReader.open(path.getParent(),
            new OffsetAndEpoch(Long.parseLong(id[0]), Integer.parseInt(id[1])));
        for (Method method : RecordsSnapshotReader.class.getMethods())
            if (method.getName().equals("of"))
                return (SnapshotReader<byte[]>) method.invoke(null, taken(method.getParameterCount(),
                    raw, new Bytes(), BufferSupplier.create(), MAX_BATCH, true, new LogContext()));
        throw new IllegalStateException("RecordsSnapshotReader has no method `of`");
    }

    static String control(ControlRecord record) {
        Object said = record.message();
        String details = "";
        if (said instanceof LeaderChangeMessage change) details = ":" + change.leaderId();
        if (said instanceof SnapshotHeaderRecord header) details = ":" + header.lastContainedLogTimestamp();
        if (said instanceof KRaftVersionRecord version) details = ":" + version.kRaftVersion();
        if (said instanceof VotersRecord voters)
            for (VotersRecord.Voter voter : voters.voters())
                details += ":" + voter.voterId() + "/" + voter.voterDirectoryId();
        return record.type() + details;
    }

    static void print(Iterator<Batch<byte[]>> batches) {
        while (batches.hasNext()) {
            Batch<byte[]> batch = batches.next();
            CRC32 values = new CRC32();
            for (byte[] value : batch.records()) {
                values.update(ByteBuffer.allocate(4).putInt(value.length).array());
                values.update(value);
            }
            StringBuilder line = new StringBuilder();
            line.append(batch.baseOffset()).append(' ').append(batch.lastOffset()).append(' ').append(batch.epoch());
            line.append(' ').append(batch.appendTimestamp()).append(' ').append(batch.sizeInBytes());
            line.append(' ').append(batch.records().size()).append(' ').append(values.getValue());
            for (ControlRecord record : batch.controlRecords()) line.append(' ').append(control(record));
            System.out.println(line);
        }
    }

    static void read(String path) throws Exception {
        if (path.endsWith(".checkpoint"))
            try (SnapshotReader<byte[]> reader = snapshot(Path.of(path))) {
                print(reader);
            }
        else
            try (FileRecords file = FileRecords.open(new File(path), false)) {
                print(log(file));
            }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader paths = new BufferedReader(new InputStreamReader(System.in));
        for (String path = paths.readLine(); path != null; path = paths.readLine()) {
            System.out.println("file " + path);
            try {
                read(path);
                System.out.println("end");
            } catch (Exception error) {
                System.out.println("failed " + error.toString().split("\n")[0]);
            }
        }
    }
}
