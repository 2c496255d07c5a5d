/* warmswap: memory that may be larger than what it takes. The C face of the arena.
 *
 * Pages that are not needed are compressed, and come back when they are touched. Link with -lwarmswap_c.
 * examples/hot_set.c in the source is a complete program.
 *
 * - Functions that can fail give 0, or an error code and a message: warmswap_last_error().
 * - Objects may be used from any thread. An object is freed once, after all uses; in whatever order, since each
 *   keeps alive what it needs.
 * - Faults are served in the thread that makes them, by a handler of SIGBUS. A handler that the program installs
 *   later must pass on what it does not know.
 * - System calls cannot fault pages in: give them only what warmswap_pin() holds, or plain memory.
 * - A child of fork has no regions: an access there is a segmentation fault.
 * - A page that cannot be served ends the process with a line on standard error. It never reads as zeros.
 */
#ifndef WARMSWAP_H
#define WARMSWAP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An arena: one budget, one scheme. */
typedef struct warmswap_arena warmswap_arena;
/* A user of an arena whose launches and pauses the scheme is told of. */
typedef struct warmswap_app warmswap_app;
/* Memory of an application. */
typedef struct warmswap_region warmswap_region;
/* Pages that stay in their place until they are unpinned. */
typedef struct warmswap_pinned warmswap_pinned;

/* Error codes. */
enum {
    WARMSWAP_OK = 0,
    /* An argument makes no sense: a null pointer, text that is not UTF-8, an unknown scheme, a bad range. */
    WARMSWAP_INVALID = 1,
    /* The kernel lacks something, or there is no memory, no address space, no file. */
    WARMSWAP_SYSTEM = 2,
};

/* What a range of a region is needed for. */
enum {
    /* Not for long: it leaves now. */
    WARMSWAP_COLD = 0,
    /* Now and at every launch: it comes back and counts as touched. */
    WARMSWAP_HOT = 1,
    /* Soon: it comes back, and is as hot as it was. */
    WARMSWAP_WORKING_SET = 2,
};

/* What an arena is made with. Fields of 0 or NULL stand for the default. */
typedef struct warmswap_config {
    /* Memory for frames, pool and tables together, in bytes. Must be given. */
    uint64_t budget_bytes;
    /* A scheme as `warmswap-lab schemes` lists them, or "zram+sizing=adaptive:64k-64k-64k". Default: "warmswap". */
    const char *scheme;
    /* A file that takes what the pool does not hold; must not exist. Default: none. */
    const char *backing_path;
    /* Its size in bytes. Default: 4 GiB. */
    uint64_t backing_limit_bytes;
    /* Addresses for all regions together, in bytes. Default: 64 GiB. */
    uint64_t address_space_bytes;
} warmswap_config;

/* What an arena holds and has done. */
typedef struct warmswap_stats {
    /* What all of it together may hold, in bytes. */
    uint64_t budget_bytes;
    /* What all of it together holds, in bytes. */
    uint64_t used_bytes;
    /* Pages in their places. */
    uint64_t resident_pages;
    /* Pages that are stored, in the pool or in the file. */
    uint64_t stored_pages;
    /* Memory of the pool, in bytes. */
    uint64_t pool_bytes;
    /* Faults that found work to do. */
    uint64_t faults;
    /* Of them, first touches. */
    uint64_t first_touches;
    /* Pages that came along with another, or together ahead of use. */
    uint64_t neighbours;
    /* Times that the budget was exceeded, since nothing could be given up. */
    uint64_t overcommits;
} warmswap_stats;

/* What the last call of this thread that failed had to say; "" if none did. Valid until the next such call. */
const char *warmswap_last_error(void);

/* Makes an arena. */
int warmswap_arena_new(const warmswap_config *config, warmswap_arena **arena);
void warmswap_arena_free(warmswap_arena *arena);
int warmswap_arena_stats(const warmswap_arena *arena, warmswap_stats *stats);

/* Adds an application; its name is for people. */
int warmswap_app_new(const warmswap_arena *arena, const char *name, warmswap_app **app);
void warmswap_app_free(warmswap_app *app);
/* It comes to the foreground: its launch window opens, and its hot set begins to come back. */
int warmswap_app_foreground(const warmswap_app *app);
/* It has answered: the launch window closes, once its hot set is back. */
int warmswap_app_launch_done(const warmswap_app *app);
/* It goes to the background: what it holds leaves when others need room. */
int warmswap_app_background(const warmswap_app *app);

/* Maps memory of at least this many bytes; it reads as zeros. Freeing it unmaps it. */
int warmswap_region_new(const warmswap_app *app, size_t bytes, warmswap_region **region);
void warmswap_region_free(warmswap_region *region);
/* Its first byte, and how many there are (whole pages). NULL and 0 of NULL. */
void *warmswap_region_data(const warmswap_region *region);
size_t warmswap_region_bytes(const warmswap_region *region);
/* Says what `bytes` bytes at `offset` are needed for: WARMSWAP_COLD, _HOT or _WORKING_SET. */
int warmswap_region_advise(const warmswap_region *region, size_t offset, size_t bytes, int advice);

/* Brings a range of addresses to its place and keeps it there, so that a system call can be given it. Addresses that
 * no region has are passed over. Unpin before the region is freed. */
int warmswap_pin(const warmswap_arena *arena, const void *start, size_t bytes, warmswap_pinned **pinned);
void warmswap_unpin(warmswap_pinned *pinned);

#ifdef __cplusplus
}
#endif

#endif
