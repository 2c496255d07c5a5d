import com.sun.source.tree.CompilationUnitTree;
import com.sun.source.tree.IdentifierTree;
import com.sun.source.util.JavacTask;
import com.sun.source.util.TreeScanner;
import java.io.IOException;
import java.io.StringWriter;
import java.net.URI;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.StandardJavaFileManager;
import javax.tools.ToolProvider;

/** The compiler as in an editor: syntax trees of many files, which are edited, parsed again and searched. */
final class JavacProgram implements Program {
    private static final int FILES = 900;
    private static final int OPEN_MAX = 20;
    private static final int SEARCHED = 20;
    private static final int ANALYZE_EVERY = 8;
    private final JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
    private final StandardJavaFileManager manager = compiler.getStandardFileManager(null, null, null);
    private final List<CompilationUnitTree> units = new ArrayList<>();
    private final Map<Integer, String> open = new LinkedHashMap<>();
    private List<Sources.SourceFile> files;
    private int actions;

    private static JavaFileObject source(String path, String text) {
        return new SimpleJavaFileObject(URI.create("memory:///" + path), JavaFileObject.Kind.SOURCE) {
            @Override
            public CharSequence getCharContent(boolean ignoreErrors) {
                return text;
            }
        };
    }

    private JavacTask task(List<JavaFileObject> sources) {
        var options = List.of("-proc:none");
        return (JavacTask) compiler.getTask(new StringWriter(), manager, problem -> {}, options, null, sources);
    }

    @Override
    public void setUp(Sources sources) throws IOException {
        files = sources.first(FILES);
        List<JavaFileObject> all = new ArrayList<>();
        for (var file : files) {
            all.add(source(file.path(), file.text()));
        }
        task(all).parse().forEach(units::add);
    }

    @Override
    public void act(Random random) throws IOException {
        int number = Program.pick(random, files.size());
        var file = files.get(number);
        String text = file.text() + "\n// edited " + random.nextInt(1000) + "\n";
        for (var unit : task(List.of(source(file.path(), text))).parse()) {
            units.set(number, unit);
            open.put(number, unit.toString());
        }
        if (open.size() > OPEN_MAX) {
            open.remove(open.keySet().iterator().next());
        }
        int identifiers = 0;
        for (int i = 0; i < SEARCHED; i++) {
            identifiers += identifiers(units.get(Program.pick(random, units.size())));
        }
        if (++actions % ANALYZE_EVERY != 0) {
            return;
        }
        String note = "import java.util.*; class Note { Map<String, List<Integer>> notes = new HashMap<>();"
                + " int sum() { return notes.values().stream().mapToInt(List::size).sum() + " + identifiers + "; } }";
        task(List.of(source("Note.java", note))).analyze();
    }

    private static int identifiers(CompilationUnitTree unit) {
        int[] count = new int[1];
        new TreeScanner<Void, Void>() {
            @Override
            public Void visitIdentifier(IdentifierTree tree, Void nothing) {
                count[0]++;
                return null;
            }
        }.scan(unit, null);
        return count[0];
    }
}
