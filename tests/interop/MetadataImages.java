import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.lang.reflect.Constructor;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.TreeSet;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.loader.MetadataBatchLoader;
import org.apache.kafka.image.writer.ImageWriterOptions;
import org.apache.kafka.image.writer.RecordListWriter;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.LeaderAndEpoch;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.fault.FaultHandler;

/**
 * Replays metadata records with Kafka's own image, and writes what exists afterwards.
 *
 * `histories FILE OUT`: the file has the number of histories, and for each the number of its records, and each record's
 * size and bytes.
 *
 * `directories FILE OUT`: each line of the file has offsets, with commas between them, and the paths of at most one
 * snapshot and the segments of a log, with tabs between them.  The image is written as of each offset, which is the end
 * of a batch or of the snapshot.
 *
 * An image in the output is the number of refused records, their positions or offsets, the number of records that
 * Kafka's image writes into a snapshot, and each one's size and bytes.
 */
public class MetadataImages {
    static final MetadataRecordSerde SERDE = new MetadataRecordSerde();

    static ApiMessageAndVersion read(ByteBuffer value) {
        return SERDE.read(new ByteBufferAccessor(value), value.remaining());
    }

    static byte[] written(ApiMessageAndVersion record) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(SERDE.recordSize(record, cache));
        SERDE.write(record, cache, new ByteBufferAccessor(buffer));
        return buffer.array();
    }

    static void write(DataOutputStream out, List<Integer> refused, MetadataImage image) throws Exception {
        out.writeInt(refused.size());
        for (int at : refused) out.writeInt(at);
        RecordListWriter writer = new RecordListWriter();
        if (!image.isEmpty()) {  // otherwise it would have the metadata.version
            image.write(writer, new ImageWriterOptions.Builder(MetadataVersion.latestTesting())
                .setEligibleLeaderReplicasEnabled(true).build());
        }
        out.writeInt(writer.records().size());
        for (ApiMessageAndVersion record : writer.records()) {
            byte[] value = written(record);
            out.writeInt(value.length);
            out.write(value);
        }
    }

    // Histories: each record by itself

    static MetadataDelta on(MetadataImage image) {
        return new MetadataDelta.Builder().setImage(image).build();
    }

    static MetadataImage applied(MetadataDelta delta) {
        return delta.apply(new MetadataProvenance(0, 0, 0, true));
    }

    static void history(DataInputStream in, DataOutputStream out) throws Exception {
        MetadataImage image = MetadataImage.EMPTY;
        MetadataDelta transaction = null;
        List<Integer> refused = new ArrayList<>();
        int refusedBefore = 0;
        int count = in.readInt();
        for (int at = 0; at < count; at++) {
            byte[] value = new byte[in.readInt()];
            in.readFully(value);
            ApiMessageAndVersion record = read(ByteBuffer.wrap(value));
            switch (MetadataRecordType.fromId(record.message().apiKey())) {
                case BEGIN_TRANSACTION_RECORD:
                    transaction = on(image);
                    refusedBefore = refused.size();
                    break;
                case END_TRANSACTION_RECORD:
                    image = applied(transaction);
                    transaction = null;
                    break;
                case ABORT_TRANSACTION_RECORD:
                    transaction = null;
                    refused.subList(refusedBefore, refused.size()).clear();
                    break;
                default:
                    MetadataDelta delta = transaction == null ? on(image) : transaction;
                    try {
                        delta.replay(record.message());
                        if (transaction == null) image = applied(delta);
                    } catch (RuntimeException error) {
                        refused.add(at);
                    }
            }
        }
        write(out, refused, image);
    }

    // Directories: batch by batch, as a node loads them

    static class Loading {
        MetadataImage image = MetadataImage.EMPTY;
        final List<Integer> refused = new ArrayList<>();
        final MetadataBatchLoader loader;
        int at = 0;

        Loading() throws Exception {
            FaultHandler faults = (message, cause) -> {
                refused.add(at);
                return new RuntimeException(message, cause);
            };
            MetadataBatchLoader.MetadataUpdater update = (delta, made, manifest) -> image = made;
            List<Object> given = new ArrayList<>(Arrays.asList(new LogContext(), Time.SYSTEM, faults, update));
            Constructor<?> constructor = MetadataBatchLoader.class.getConstructors()[0];
            if (constructor.getParameterCount() > given.size()) {  // since Kafka 4.4: which configurations count
                given.add(constructor.getParameterTypes()[given.size()].getField("TRUE").get(null));
            }
            loader = (MetadataBatchLoader) constructor.newInstance(given.toArray());
        }

        void snapshot(File file) throws Exception {
            MetadataDelta delta = on(MetadataImage.EMPTY);
            try (FileRecords records = FileRecords.open(file, false)) {
                for (RecordBatch batch : records.batches()) {
                    for (ApiMessageAndVersion record : decoded(batch)) delta.replay(record.message());
                }
            }
            delta.finishSnapshot();
            image = applied(delta);
            loader.resetToImage(image);
            String name = file.getName();
            at = Integer.parseInt(name.substring(0, name.indexOf('-')));
        }

        void batch(RecordBatch batch) {
            at = (int) batch.baseOffset();
            if (!batch.isControlBatch()) {
                loader.loadBatch(
                    Batch.data(batch.baseOffset(), batch.partitionLeaderEpoch(), batch.maxTimestamp(),
                        batch.sizeInBytes(), decoded(batch)),
                    LeaderAndEpoch.UNKNOWN);
                loader.maybeFlushBatches(LeaderAndEpoch.UNKNOWN, true);
            }
            at = (int) batch.nextOffset();
        }

        static List<ApiMessageAndVersion> decoded(RecordBatch batch) {
            List<ApiMessageAndVersion> records = new ArrayList<>();
            if (!batch.isControlBatch()) {
                for (Record record : batch) records.add(read(record.value()));
            }
            return records;
        }
    }

    static void directory(String line, DataOutputStream out) throws Exception {
        String[] words = line.split("\t");
        TreeSet<Integer> offsets = new TreeSet<>();
        for (String offset : words[0].split(",")) offsets.add(Integer.parseInt(offset));
        Loading loading = new Loading();
        for (String path : Arrays.copyOfRange(words, 1, words.length)) {
            File file = new File(path);
            if (path.endsWith(".checkpoint")) {
                loading.snapshot(file);
                if (offsets.remove(loading.at)) write(out, loading.refused, loading.image);
                continue;
            }
            try (FileRecords records = FileRecords.open(file, false)) {
                for (RecordBatch batch : records.batches()) {
                    if (batch.baseOffset() < loading.at) continue;
                    loading.batch(batch);
                    if (offsets.remove(loading.at)) write(out, loading.refused, loading.image);
                }
            }
        }
        if (!offsets.isEmpty()) throw new IllegalArgumentException("no batch ends at " + offsets);
    }

    public static void main(String[] arguments) throws Exception {
        Path given = Path.of(arguments[1]);
        try (DataOutputStream out =
                new DataOutputStream(new BufferedOutputStream(new FileOutputStream(arguments[2])))) {
            if (arguments[0].equals("directories")) {
                for (String line : Files.readAllLines(given)) directory(line, out);
                return;
            }
            try (DataInputStream in =
                    new DataInputStream(new BufferedInputStream(new FileInputStream(given.toFile())))) {
                for (int left = in.readInt(); left > 0; left--) history(in, out);
            }
        }
    }
}
