/** Objects with higher addresses than the only instance were allocated after it. */
final class ForegroundMark {}
