import java.util.Random;

/** A program that a user works with. */
interface Program {
    /** Loads the data. */
    void setUp(Sources sources) throws Exception;

    /** One action of the user. Some things are used much more often than others. */
    void act(Random random) throws Exception;

    /** One of {@code count}, the first ones most often: half of the actions go to a twentieth. */
    static int pick(Random random, int count) {
        return (int) Math.min(count - 1, Math.abs(random.nextGaussian()) * count / 13);
    }
}
