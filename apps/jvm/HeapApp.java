import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.Random;

/**
 * Brings one program into the state in which a user leaves it, and waits there for a heap dump.
 *
 * <p>The program is set up and used; then comes a full collection, an object that marks this moment, and more use.
 * What is allocated behind the mark is what Fleet (ASPLOS '24, section 5.3.1) calls foreground young objects: those
 * since the last collection. No collection may come in between, since addresses would not tell young from old then.
 */
public final class HeapApp {
    private static final int FOREGROUND_ACTIONS = 300;

    /** Android collects when a heap is full, with 0.75 of it live: it grows by a third from one collection to the next. */
    private static final int GROWTH_DIVISOR = 3;

    /** For programs whose actions hardly allocate. */
    private static final int YOUNG_ACTIONS_MAX = 100_000;

    private static ForegroundMark mark;

    private HeapApp() {}

    /** Arguments: the program, and the archive of the JDK's sources. */
    public static void main(String[] args) throws Exception {
        Program program = switch (args[0]) {
            case "h2" -> new H2Program();
            case "lucene" -> new LuceneProgram();
            case "clojure" -> new ClojureProgram();
            case "javac" -> new JavacProgram();
            default -> throw new IllegalArgumentException("no such program: " + args[0]);
        };
        Random random = new Random(7);
        program.setUp(new Sources(Path.of(args[1])));
        for (int i = 0; i < FOREGROUND_ACTIONS; i++) {
            program.act(random);
        }
        System.gc();
        long collections = collections();
        mark = new ForegroundMark();
        long live = usedBytes();
        int actions = 0;
        while (usedBytes() - live < live / GROWTH_DIVISOR && actions < YOUNG_ACTIONS_MAX) {
            program.act(random);
            actions++;
        }
        if (collections() != collections) {
            throw new IllegalStateException("a collection came between the mark and the dump: use a larger -Xmn");
        }
        System.out.printf("ready: %d MiB live, %d young actions allocated %d MiB%n",
                live >> 20, actions, (usedBytes() - live) >> 20);
        System.in.read();
        System.out.println(mark + " " + program);
    }

    private static long collections() {
        return ManagementFactory.getGarbageCollectorMXBeans().stream()
                .mapToLong(bean -> bean.getCollectionCount())
                .sum();
    }

    private static long usedBytes() {
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }
}
