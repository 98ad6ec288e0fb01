import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.nio.ByteBuffer;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.writer.ImageWriterOptions;
import org.apache.kafka.image.writer.RecordListWriter;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * Replays histories of metadata records with Kafka's own image, and writes what exists at the end of each.
 *
 * The file of the histories has, for each, the number of its records, and each record's size and bytes.  The output has
 * for each history the number of refused records, their positions, the number of records that Kafka's image writes into
 * a snapshot, and each one's size and bytes.
 */
public class MetadataImages {
    static final MetadataRecordSerde SERDE = new MetadataRecordSerde();

    static ApiMessageAndVersion read(byte[] value) {
        return SERDE.read(new ByteBufferAccessor(ByteBuffer.wrap(value)), value.length);
    }

    static byte[] written(ApiMessageAndVersion record) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(SERDE.recordSize(record, cache));
        SERDE.write(record, cache, new ByteBufferAccessor(buffer));
        return buffer.array();
    }

    static MetadataDelta on(MetadataImage image) {
        return new MetadataDelta.Builder().setImage(image).build();
    }

    static MetadataImage applied(MetadataDelta delta) {
        return delta.apply(new MetadataProvenance(0, 0, 0, true));
    }

    static void replay(DataInputStream in, DataOutputStream out) throws Exception {
        MetadataImage image = MetadataImage.EMPTY;
        MetadataDelta transaction = null;
        java.util.List<Integer> refused = new java.util.ArrayList<>();
        int refusedBefore = 0;
        int count = in.readInt();
        for (int at = 0; at < count; at++) {
            byte[] value = new byte[in.readInt()];
            in.readFully(value);
            ApiMessageAndVersion record = read(value);
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
        out.writeInt(refused.size());
        for (int at : refused) out.writeInt(at);
        RecordListWriter writer = new RecordListWriter();
        image.write(writer, new ImageWriterOptions.Builder(MetadataVersion.latestTesting())
            .setEligibleLeaderReplicasEnabled(true).build());
        out.writeInt(writer.records().size());
        for (ApiMessageAndVersion record : writer.records()) {
            byte[] value = written(record);
            out.writeInt(value.length);
            out.write(value);
        }
    }

    public static void main(String[] arguments) throws Exception {
        try (DataInputStream in = new DataInputStream(new java.io.BufferedInputStream(new FileInputStream(arguments[0])));
                DataOutputStream out =
                    new DataOutputStream(new java.io.BufferedOutputStream(new FileOutputStream(arguments[1])))) {
            for (int left = in.readInt(); left > 0; left--) replay(in, out);
        }
    }
}
