import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.CountDownLatch;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;

/**
 * Makes and shows nodes of a ZooKeeper.
 *
 * <p>{@code java Znodes ADDRESS create} reads a line {@code PATH DATA} a node; missing parents
 * are made too. {@code java Znodes ADDRESS children PATH} prints {@code NAME DATA} of each
 * child.
 */
final class Znodes {
    private static final int SESSION_MS = 10_000;

    public static void main(String[] arguments) throws Exception {
        var connected = new CountDownLatch(1);
        var zookeeper =
                new ZooKeeper(
                        arguments[0],
                        SESSION_MS,
                        event -> {
                            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) {
                                connected.countDown();
                            }
                        });
        connected.await();
        switch (arguments[1]) {
            case "create" -> {
                var lines = new BufferedReader(new InputStreamReader(System.in, UTF_8));
                for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                    int blank = line.indexOf(' ');
                    create(zookeeper, line.substring(0, blank), line.substring(blank + 1));
                }
            }
            case "children" -> show(zookeeper, arguments[2]);
            default -> throw new IllegalArgumentException(
                    "expected create or children, found " + arguments[1]);
        }
        zookeeper.close();
    }

    private static void create(ZooKeeper zookeeper, String path, String data) throws Exception {
        for (int slash = path.indexOf('/', 1); slash > 0; slash = path.indexOf('/', slash + 1)) {
            String parent = path.substring(0, slash);
            if (zookeeper.exists(parent, false) == null) {
                try {
                    create(zookeeper, parent, new byte[0]);
                } catch (KeeperException.NodeExistsException faster) {
                    // A broker that starts makes the same parents.
                }
            }
        }
        create(zookeeper, path, data.getBytes(UTF_8));
    }

    private static void create(ZooKeeper zookeeper, String path, byte[] data) throws Exception {
        zookeeper.create(path, data, ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
    }

    private static void show(ZooKeeper zookeeper, String path) throws Exception {
        for (String name : zookeeper.getChildren(path, false)) {
            byte[] data = zookeeper.getData(path + "/" + name, false, null);
            System.out.println(name + " " + new String(data, UTF_8));
        }
    }
}
