import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.List;
import java.util.Random;

/** A database in memory: files and their lines, which are read, searched and edited. */
final class H2Program implements Program {
    private static final int FILES = 1500;
    private Connection connection;
    private PreparedStatement lines;
    private PreparedStatement edit;
    private PreparedStatement log;
    private PreparedStatement recent;
    private int files;
    private int edits;

    @Override
    public void setUp(Sources sources) throws Exception {
        connection = DriverManager.getConnection("jdbc:h2:mem:sources");
        try (var statement = connection.createStatement()) {
            statement.execute("CREATE TABLE file(id INT PRIMARY KEY, path VARCHAR, folder VARCHAR)");
            statement.execute("CREATE TABLE line(file INT, number INT, text VARCHAR, PRIMARY KEY(file, number))");
            statement.execute("CREATE TABLE edit(id INT PRIMARY KEY, file INT, number INT, text VARCHAR)");
            statement.execute("CREATE INDEX by_folder ON file(folder)");
        }
        load(sources.first(FILES));
        lines = connection.prepareStatement(
                "SELECT f.path, l.number, l.text FROM file f JOIN line l ON l.file = f.id WHERE f.id = ? ORDER BY 2");
        edit = connection.prepareStatement("UPDATE line SET text = ? WHERE file = ? AND number = ?");
        log = connection.prepareStatement("INSERT INTO edit VALUES (?, ?, ?, ?)");
        recent = connection.prepareStatement(
                "SELECT f.folder, COUNT(*) FROM edit e JOIN file f ON f.id = e.file WHERE e.id > ? GROUP BY f.folder");
    }

    private void load(List<Sources.SourceFile> all) throws SQLException {
        try (var file = connection.prepareStatement("INSERT INTO file VALUES (?, ?, ?)");
                var line = connection.prepareStatement("INSERT INTO line VALUES (?, ?, ?)")) {
            for (var source : all) {
                file.setInt(1, files);
                file.setString(2, source.path());
                file.setString(3, source.folder());
                file.execute();
                int number = 0;
                for (String text : source.text().split("\n")) {
                    line.setInt(1, files);
                    line.setInt(2, number++);
                    line.setString(3, text);
                    line.execute();
                }
                files++;
            }
        }
    }

    @Override
    public void act(Random random) throws Exception {
        int file = Program.pick(random, files);
        int count = 0;
        String last = "";
        lines.setInt(1, file);
        try (ResultSet rows = lines.executeQuery()) {
            while (rows.next()) {
                last = rows.getString(3);
                count++;
            }
        }
        int number = random.nextInt(count);
        String text = last + " // edited " + edits;
        edit.setString(1, text);
        edit.setInt(2, file);
        edit.setInt(3, number);
        edit.execute();
        log.setInt(1, edits);
        log.setInt(2, file);
        log.setInt(3, number);
        log.setString(4, text);
        log.execute();
        recent.setInt(1, edits - 50);
        try (ResultSet rows = recent.executeQuery()) {
            while (rows.next()) {
                rows.getString(1);
            }
        }
        edits++;
    }
}
