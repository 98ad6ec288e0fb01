import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;

import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** Writes each line of the file "file" to the topic "topic", as Kafka's FileStreamSource does, which not every release has. */
public class LineSource extends SourceConnector {
    private Map<String, String> settings;

    @Override
    public void start(Map<String, String> given) {
        settings = given;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return LineTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        return List.of(settings);
    }

    @Override
    public void stop() {
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public String version() {
        return "1";
    }

    public static class LineTask extends SourceTask {
        private Map<String, String> settings;
        private int taken;

        @Override
        public void start(Map<String, String> given) {
            settings = given;
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            try {
                List<String> lines = Files.readAllLines(Path.of(settings.get("file")));
                if (taken == lines.size()) {
                    Thread.sleep(100);
                    return null;
                }
                String line = lines.get(taken++);
                Map<String, ?> partition = Map.of("file", settings.get("file"));
                return List.of(new SourceRecord(partition, Map.of("lines", taken), settings.get("topic"), Schema.STRING_SCHEMA, line));
            } catch (IOException failure) {
                throw new IllegalStateException(failure);
            }
        }

        @Override
        public void stop() {
        }

        @Override
        public String version() {
            return "1";
        }
    }
}
