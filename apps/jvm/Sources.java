import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;

/** The sources of the JDK: the data that all programs work on. */
final class Sources {
    /** A source file. */
    record SourceFile(String path, String text) {
        String folder() {
            return path.substring(0, path.lastIndexOf('/'));
        }
    }

    private static final long FILE_BYTES_MAX = 150_000;
    private final Path archive;

    Sources(Path archive) {
        this.archive = archive;
    }

    /** The first {@code count} files of the module {@code java.base}, in the order of the archive. */
    List<SourceFile> first(int count) throws IOException {
        List<SourceFile> files = new ArrayList<>();
        try (ZipFile zip = new ZipFile(archive.toFile())) {
            var entries = zip.entries();
            while (entries.hasMoreElements() && files.size() < count) {
                ZipEntry entry = entries.nextElement();
                String name = entry.getName();
                if (!name.startsWith("java.base/") || !name.endsWith(".java") || name.endsWith("-info.java")
                        || entry.getSize() > FILE_BYTES_MAX) {
                    continue;
                }
                byte[] bytes = zip.getInputStream(entry).readAllBytes();
                files.add(new SourceFile(name, new String(bytes, StandardCharsets.UTF_8)));
            }
        }
        return files;
    }
}
