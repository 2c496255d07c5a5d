import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import org.apache.lucene.analysis.standard.StandardAnalyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.StoredField;
import org.apache.lucene.document.TextField;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.Term;
import org.apache.lucene.search.BooleanClause;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.store.ByteBuffersDirectory;

/** A search engine: an index of paragraphs in memory, the paragraphs, and a cache of what was shown. */
final class LuceneProgram implements Program {
    private static final int FILES = 6000;
    private static final int SHOWN_MAX = 300;
    private static final int REOPEN_EVERY = 20;
    private final List<String[]> paragraphs = new ArrayList<>();
    private final List<String> words = new ArrayList<>();
    private final Map<String, List<String>> shown = new LinkedHashMap<>();
    private IndexWriter writer;
    private DirectoryReader reader;
    private int actions;

    @Override
    public void setUp(Sources sources) throws Exception {
        writer = new IndexWriter(new ByteBuffersDirectory(), new IndexWriterConfig(new StandardAnalyzer()));
        for (var file : sources.first(FILES)) {
            for (String paragraph : file.text().split("\n\\s*\n")) {
                add(file.path(), paragraph);
            }
        }
        writer.forceMerge(1);
        writer.commit();
        reader = DirectoryReader.open(writer);
    }

    private void add(String path, String paragraph) throws Exception {
        Document document = new Document();
        document.add(new TextField("body", paragraph, Field.Store.NO));
        document.add(new StoredField("path", path));
        document.add(new StoredField("paragraph", paragraphs.size()));
        writer.addDocument(document);
        paragraphs.add(paragraph.split("\n"));
        if (paragraphs.size() % 8 == 0) {
            String[] found = paragraph.toLowerCase(Locale.ROOT).split("[^a-z]+");
            if (found.length > 0) {
                words.add(found[found.length - 1]);
            }
        }
    }

    @Override
    public void act(Random random) throws Exception {
        String often = words.get(Program.pick(random, words.size()));
        String seldom = words.get(random.nextInt(words.size()));
        BooleanQuery.Builder query = new BooleanQuery.Builder();
        for (String word : List.of(often, seldom)) {
            query.add(new TermQuery(new Term("body", word)), BooleanClause.Occur.SHOULD);
        }
        IndexSearcher searcher = new IndexSearcher(reader);
        List<String> lines = new ArrayList<>();
        for (var hit : searcher.search(query.build(), 10).scoreDocs) {
            Document document = searcher.storedFields().document(hit.doc);
            lines.add(document.get("path"));
            for (String line : paragraphs.get(document.getField("paragraph").numericValue().intValue())) {
                lines.add(line.strip());
            }
        }
        shown.put(often + " " + seldom, lines);
        if (shown.size() > SHOWN_MAX) {
            shown.remove(shown.keySet().iterator().next());
        }
        add("notes", "note " + actions + " on " + often + " and " + seldom);
        if (++actions % REOPEN_EVERY == 0) {
            DirectoryReader next = DirectoryReader.openIfChanged(reader);
            reader.close();
            reader = next;
        }
    }
}
