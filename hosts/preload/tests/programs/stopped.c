/* Children that make no progress: a debugger stops each before its first instruction. The parent goes on, changes all of its
   memory, and lets the child go on only then, which finds the memory as it was at the fork. One child is killed instead. */
#include "memory.h"

#include <sys/ptrace.h>

enum { PAGES = 12000, TURNS = 4, KILLED = 2 };

/* What the parent asks the debugger for. */
enum { GO_ON = 'g', KILL = 'k' };

/* Follows `parent` through its forks and stops the children. */
static void debug(pid_t parent, int requests, int answers) {
    CHECK(ptrace(PTRACE_SEIZE, parent, 0, PTRACE_O_TRACEFORK) == 0);
    CHECK(write(answers, "", 1) == 1);
    for (int turn = 0; turn < TURNS; turn++) {
        pid_t child = 0;
        int has_forked = 0, is_stopped = 0, status;
        while (!has_forked || !is_stopped) {
            pid_t pid = waitpid(-1, &status, __WALL);
            CHECK(pid > 0 && WIFSTOPPED(status));
            if (pid != parent) {
                child = pid;
                is_stopped = 1;
                continue;
            }
            has_forked |= status >> 16 == PTRACE_EVENT_FORK;
            CHECK(ptrace(PTRACE_CONT, parent, 0, status >> 16 ? 0 : WSTOPSIG(status)) == 0);
        }
        char request;
        CHECK(read(requests, &request, 1) == 1);
        if (request == GO_ON) {
            CHECK(ptrace(PTRACE_DETACH, child, 0, 0) == 0);
        } else {
            CHECK(kill(child, SIGKILL) == 0);
            CHECK(waitpid(child, &status, __WALL) == child && WIFSIGNALED(status));
        }
    }
    _exit(0);
}

int main(void) {
    end_if_it_hangs();
    int requests[2], answers[2];
    CHECK(pipe(requests) == 0 && pipe(answers) == 0);
    pid_t parent = getpid(), debugger = fork();
    CHECK(debugger >= 0);
    if (debugger == 0) debug(parent, requests[0], answers[1]);
    char byte;
    CHECK(read(answers[0], &byte, 1) == 1);

    uint64_t *memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 0);
    wait_until_paged(memory, PAGES);
    for (uint64_t turn = 0; turn < TURNS; turn++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, turn));
            for (uint64_t page = 0; page < PAGES; page += 2) fill(memory, page, 100);
            for (uint64_t page = 0; page < PAGES; page++)
                CHECK(holds(memory, page, page % 2 ? turn : 100));
            _exit(0);
        }
        for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, turn + 1);
        for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, turn + 1));
        char request = turn == KILLED ? KILL : GO_ON;
        CHECK(write(requests[1], &request, 1) == 1);
        if (turn == KILLED) {
            int status;
            CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
        } else {
            join_child(child);
        }
        /* Debugger and guard are the other children: what the library makes is none to be waited for. */
        pid_t other = waitpid(-1, NULL, WNOHANG);
        CHECK(other == 0 || other == debugger);
    }
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, TURNS));
    kill(debugger, SIGKILL);
    return 0;
}
