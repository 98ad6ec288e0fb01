import java.io.File;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;
import org.apache.kafka.common.protocol.Writable;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.Records;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.internals.RecordsIterator;
import org.apache.kafka.server.common.serialization.RecordSerde;

/** Reads the batches of each file that stdin names as a voter of Kafka does; a line with their number, or the error. */
public class RecordReader {
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

    @SuppressWarnings("unchecked")
    static RecordsIterator<byte[]> iterator(Records records) throws Exception {
        Constructor<?> constructor = RecordsIterator.class.getConstructors()[0];
        Object[] all = {records, new Bytes(), BufferSupplier.create(), 8 * 1024 * 1024, true, new LogContext()};
        // 4.0 and older have no log context.
        Object[] taken = java.util.Arrays.copyOf(all, constructor.getParameterCount());
        return (RecordsIterator<byte[]>) constructor.newInstance(taken);
    }

    static String read(String path) throws Exception {
        int batches = 0;
        int records = 0;
        try (FileRecords file = FileRecords.open(new File(path), false)) {
            RecordsIterator<byte[]> iterator = iterator(file);
            while (iterator.hasNext()) {
                Batch<byte[]> batch = iterator.next();
                batches++;
                records += batch.records().size() + batch.controlRecords().size();
            }
            return "read " + batches + " " + records;
        } catch (RuntimeException error) {
            return error.getClass().getSimpleName() + ": " + String.valueOf(error.getMessage()).split("\n")[0];
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader paths = new BufferedReader(new InputStreamReader(System.in));
        for (String path = paths.readLine(); path != null; path = paths.readLine())
            System.out.println(read(path));
    }
}
