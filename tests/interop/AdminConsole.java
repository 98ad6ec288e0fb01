import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterPartitionReassignmentsOptions;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;

/**
 * Calls Kafka's Admin for each line that it reads, and prints one line: the result, or the exception.
 *
 * Its arguments are settings of the client, as KEY=VALUE.
 */
public class AdminConsole {
    public static void main(String[] settings) throws Exception {
        Properties properties = new Properties();
        for (String setting : settings) {
            String[] pair = setting.split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        try (Admin admin = Admin.create(properties)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                System.out.println(answer(admin, line.split(" ")));
                System.out.flush();
            }
        }
    }

    private static String answer(Admin admin, String[] words) throws InterruptedException {
        try {
            return call(admin, words);
        } catch (ExecutionException failure) {
            return described(failure.getCause());
        } catch (IllegalArgumentException refusal) {
            return described(refusal);
        }
    }

    private static String call(Admin admin, String[] words) throws ExecutionException, InterruptedException {
        switch (words[0]) {
            case "nodes":
                TreeSet<Integer> ids = new TreeSet<>();
                for (Node node : admin.describeCluster().nodes().get()) {
                    ids.add(node.id());
                }
                return ids.toString();
            case "list":
                return admin.listPartitionReassignments().reassignments().get().toString();
            case "remove":
                admin.removeRaftVoter(Integer.parseInt(words[1]), Uuid.fromString(words[2])).all().get();
                return "done";
            case "cancel":
                return alter(admin, words[1], Optional.empty(), true);
            case "reassign":
                return alter(admin, words[1], Optional.of(target(words[2])), true);
            case "exchange":
                return alter(admin, words[1], Optional.of(target(words[2])), false);
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static String alter(
        Admin admin, String partition, Optional<NewPartitionReassignment> target, boolean mayChangeCount
    ) throws ExecutionException, InterruptedException {
        int dash = partition.lastIndexOf('-');
        String topic = partition.substring(0, dash);
        TopicPartition key = new TopicPartition(topic, Integer.parseInt(partition.substring(dash + 1)));
        AlterPartitionReassignmentsOptions options = new AlterPartitionReassignmentsOptions();
        options.allowReplicationFactorChange(mayChangeCount);
        admin.alterPartitionReassignments(Map.of(key, target), options).all().get();
        return "done";
    }

    private static NewPartitionReassignment target(String ids) {
        List<Integer> replicas =
            ids.equals("nobody") ? List.of() : Arrays.stream(ids.split(",")).map(Integer::valueOf).toList();
        return new NewPartitionReassignment(replicas);
    }

    private static String described(Throwable problem) {
        return problem.getClass().getSimpleName() + ": " + problem.getMessage();
    }
}
