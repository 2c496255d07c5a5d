/* A heap of many small mappings, of which a part is unmapped again to align the rest, as Ruby's is. */
#include "memory.h"

enum { PIECES = 3000, PIECE_PAGES = 4 };
static const size_t BYTES = PIECE_PAGES * PAGE;

static uint64_t *aligned_piece(void) {
    uintptr_t mapped = (uintptr_t)map_pages(2 * PIECE_PAGES);
    uintptr_t piece = (mapped + BYTES - 1) / BYTES * BYTES, end = mapped + 2 * BYTES;
    if (piece > mapped) CHECK(munmap((void *)mapped, piece - mapped) == 0);
    if (end > piece + BYTES) CHECK(munmap((void *)(piece + BYTES), end - piece - BYTES) == 0);
    return (uint64_t *)piece;
}

static int are_most_away(uint64_t **pieces) {
    int away = 0;
    for (int piece = 0; piece < PIECES; piece++) away += is_down_to(pieces[piece], PIECE_PAGES, PIECE_PAGES / 2);
    return away > PIECES / 2;
}

int main(void) {
    static uint64_t *pieces[PIECES];
    end_if_it_hangs();
    for (int piece = 0; piece < PIECES; piece++) {
        pieces[piece] = aligned_piece();
        for (int page = 0; page < PIECE_PAGES; page++) fill(pieces[piece], page, piece);
    }
    /* The library needs a moment. */
    while (!are_most_away(pieces)) usleep(1000);
    for (int piece = 0; piece < PIECES; piece++)
        for (int page = 0; page < PIECE_PAGES; page++) CHECK(holds(pieces[piece], page, piece));
    return 0;
}
