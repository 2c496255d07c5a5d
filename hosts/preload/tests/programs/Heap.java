import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;

/** Fills a heap, and looks at all of it again, with collections between. */
public class Heap {
    public static void main(String[] arguments) {
        ArrayList<byte[]> blocks = new ArrayList<>();
        HashMap<Integer, String> names = new HashMap<>();
        for (int i = 0; i < 300; i++) {
            byte[] block = new byte[500_000];
            Arrays.fill(block, (byte) i);
            blocks.add(block);
        }
        for (int i = 0; i < 200_000; i++) names.put(i, "v" + i);
        long sum = 0;
        for (int round = 0; round < 2; round++) {
            for (byte[] block : blocks) for (int at = 0; at < block.length; at += 512) sum += block[at];
            System.gc();
        }
        for (int i = 0; i < 200_000; i++) sum += names.get(i).length();
        System.out.println(sum);
    }
}
