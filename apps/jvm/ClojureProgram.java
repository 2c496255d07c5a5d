import clojure.java.api.Clojure;
import clojure.lang.IFn;
import java.util.Random;

/** A Clojure program, {@code browser.clj}: persistent maps and vectors of the words of files. */
final class ClojureProgram implements Program {
    private static final int FILES = 1000;
    private IFn act;
    private int files;

    @Override
    public void setUp(Sources sources) throws Exception {
        Clojure.var("clojure.core", "require").invoke(Clojure.read("browser"));
        IFn add = Clojure.var("browser", "add-file");
        for (var file : sources.first(FILES)) {
            add.invoke(file.path(), file.folder(), file.text());
            files++;
        }
        act = Clojure.var("browser", "act");
    }

    @Override
    public void act(Random random) {
        act.invoke(Program.pick(random, files), random.nextInt(files), random.nextInt(1000));
    }
}
