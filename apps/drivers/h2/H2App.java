import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.List;
import java.util.Random;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import java.util.zip.CRC32;

/** The H2 database as an application: the classes of the JDK, and the texts in them, as tables in memory. */
public final class H2App {
    private static final int MAX_CONSTANTS = 60;
    private final Connection db;
    private final int classes;

    private H2App(int limit) throws Exception {
        db = DriverManager.getConnection("jdbc:h2:mem:app");
        try (var s = db.createStatement()) {
            s.execute("CREATE TABLE class(id INT PRIMARY KEY, package VARCHAR, name VARCHAR, bytes INT)");
            s.execute("CREATE TABLE constant(id IDENTITY PRIMARY KEY, class INT, text VARCHAR)");
        }
        int id = 0;
        try (var classRow = db.prepareStatement("INSERT INTO class VALUES (?, ?, ?, ?)");
                var textRow = db.prepareStatement("INSERT INTO constant(class, text) VALUES (?, ?)")) {
            for (Path path : classFiles(limit)) {
                byte[] bytes = Files.readAllBytes(path);
                classRow.setInt(1, id);
                classRow.setString(2, path.getParent().toString());
                classRow.setString(3, path.getFileName().toString());
                classRow.setInt(4, bytes.length);
                classRow.execute();
                addTexts(textRow, id, bytes);
                id++;
            }
        }
        classes = id;
        try (var s = db.createStatement()) {
            s.execute("CREATE INDEX by_package ON class(package)");
            s.execute("CREATE INDEX by_class ON constant(class)");
            s.execute("CREATE INDEX by_text ON constant(text)");
        }
    }

    private static List<Path> classFiles(int limit) throws IOException {
        Path root = FileSystems.getFileSystem(URI.create("jrt:/")).getPath("/modules/java.base/java");
        Path more = FileSystems.getFileSystem(URI.create("jrt:/")).getPath("/modules");
        try (Stream<Path> base = Files.walk(root); Stream<Path> all = Files.walk(more)) {
            return Stream.concat(base, all)
                    .filter(p -> p.toString().endsWith(".class"))
                    .limit(limit)
                    .collect(Collectors.toList());
        }
    }

    /** Adds the runs of at least six letters that a class file holds: names, signatures, messages. */
    private static void addTexts(PreparedStatement row, int id, byte[] bytes) throws SQLException {
        int count = 0;
        int start = 0;
        for (int i = 0; i <= bytes.length && count < MAX_CONSTANTS; i++) {
            if (i < bytes.length && bytes[i] >= ' ' && bytes[i] < 127) {
                continue;
            }
            if (i - start >= 6) {
                int length = Math.min(i - start, 200);
                row.setInt(1, id);
                row.setString(2, new String(bytes, start, length, StandardCharsets.US_ASCII));
                row.execute();
                count++;
            }
            start = i + 1;
        }
    }

    private String relaunch(long seed) throws SQLException {
        CRC32 sum = new CRC32();
        Random core = new Random(1);
        Random varied = new Random(seed + 2);
        try (var query = db.prepareStatement(
                "SELECT c.name, t.text FROM class c JOIN constant t ON t.class = c.id WHERE c.id = ? ORDER BY t.id")) {
            for (int i = 0; i < 60; i++) {
                query.setInt(1, (i < 42 ? core : varied).nextInt(classes));
                add(sum, query);
            }
        }
        try (var query = db.prepareStatement(
                "SELECT COUNT(*), SUM(bytes) FROM class WHERE package = (SELECT package FROM class WHERE id = ?)")) {
            query.setInt(1, core.nextInt(classes));
            add(sum, query);
        }
        return Long.toHexString(sum.getValue());
    }

    private String use(long seed) throws SQLException {
        CRC32 sum = new CRC32();
        Random random = new Random(seed);
        try (var query = db.prepareStatement("SELECT text, class FROM constant WHERE text LIKE ? ORDER BY text LIMIT 200");
                var update = db.prepareStatement("UPDATE class SET bytes = bytes + 1 WHERE id BETWEEN ? AND ?")) {
            for (int i = 0; i < 10; i++) {
                query.setString(1, "" + (char) ('a' + random.nextInt(26)) + (char) ('a' + random.nextInt(26)) + "%");
                add(sum, query);
                int first = random.nextInt(classes);
                update.setInt(1, first);
                update.setInt(2, first + 20);
                update.execute();
            }
        }
        return Long.toHexString(sum.getValue());
    }

    private static void add(CRC32 sum, PreparedStatement query) throws SQLException {
        try (ResultSet rows = query.executeQuery()) {
            while (rows.next()) {
                sum.update(String.valueOf(rows.getString(1)).getBytes(StandardCharsets.UTF_8));
                sum.update(String.valueOf(rows.getString(2)).getBytes(StandardCharsets.UTF_8));
            }
        }
    }

    /** Prints `ready`, then answers the lines `relaunch SEED` and `use SEED` with `done DIGEST`. */
    public static void main(String[] args) throws Exception {
        H2App app = new H2App(Integer.parseInt(args[0]));
        System.out.println("ready");
        System.out.flush();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            long seed = Long.parseLong(words[1]);
            try {
                System.out.println("done " + (words[0].equals("relaunch") ? app.relaunch(seed) : app.use(seed)));
            } catch (SQLException e) {
                System.out.println("error " + e.getMessage().replace('\n', ' '));
            }
            System.out.flush();
        }
    }
}
