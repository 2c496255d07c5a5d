/* Starts a program in every way of the C library, which is to print which. */
#include "memory.h"

#include <spawn.h>

extern char **environ;

enum { WAYS = 16 };

static char folder[4096];

/* Starts the program beside this one, from a folder that it begins in. */
static void spawn_from_folder(const char *program, int way, char **words) {
    const char *file = strrchr(program, '/') + 1;
    char path[4096];
    snprintf(path, sizeof path, "./%s", file);
    posix_spawn_file_actions_t actions;
    CHECK(posix_spawn_file_actions_init(&actions) == 0);
    CHECK(posix_spawn_file_actions_addclose(&actions, 0) == 0);
    switch (way) {
    case 10:
        CHECK(posix_spawn_file_actions_addchdir_np(&actions, folder) == 0);
        break;
    case 11: {
        char *last = strrchr(folder, '/');
        *last = 0;
        CHECK(posix_spawn_file_actions_addchdir_np(&actions, folder) == 0);
        CHECK(posix_spawn_file_actions_addchdir_np(&actions, last + 1) == 0);
        *last = '/';
        break;
    }
    case 12:
        CHECK(posix_spawn_file_actions_addopen(&actions, 50, folder, O_RDONLY, 0) == 0);
        CHECK(posix_spawn_file_actions_adddup2(&actions, 50, 51) == 0);
        CHECK(posix_spawn_file_actions_addfchdir_np(&actions, 51) == 0);
        break;
    case 13:
        CHECK(posix_spawn_file_actions_addfchdir_np(&actions, open(folder, O_PATH)) == 0);
        break;
    case 14:
        /* What is found in the folders of PATH is found from there, too. */
        CHECK(setenv("PATH", ".", 1) == 0);
        CHECK(posix_spawn_file_actions_addchdir_np(&actions, folder) == 0);
        strcpy(path, file);
        break;
    }
    pid_t child;
    int failed = way % 2 ? posix_spawn(&child, path, &actions, NULL, words, environ)
                         : posix_spawnp(&child, path, &actions, NULL, words, environ);
    CHECK(failed == 0);
    CHECK(posix_spawn_file_actions_destroy(&actions) == 0);
    join_child(child);
    _exit(0);
}

static int start(const char *program, int way) {
    char name[16], *file = strrchr(program, '/') + 1;
    snprintf(name, sizeof name, "way %d", way);
    char *words[] = {file, "a", "b", "c", "d", "e", "f", "g", "h", name, NULL};
    switch (way) {
    case 0: return execve(program, words, environ);
    case 1: return execv(program, words);
    case 2: return execvp(file, words);
    case 3: return execvpe(file, words, environ);
    case 4: return execl(program, file, "a", "b", "c", "d", "e", "f", "g", "h", name, (char *)NULL);
    case 5: return execlp(file, file, name, (char *)NULL);
    case 6: return execle(program, file, "a", "b", "c", "d", "e", "f", name, (char *)NULL, environ);
    case 7: return fexecve(open(program, O_RDONLY | O_CLOEXEC), words, environ);
    case 8:
    case 9: {
        pid_t child;
        int failed = way == 8 ? posix_spawn(&child, program, NULL, NULL, words, environ)
                              : posix_spawnp(&child, file, NULL, NULL, words, environ);
        CHECK(failed == 0);
        join_child(child);
        _exit(0);
    }
    case 15: return execveat(open(folder, O_PATH | O_CLOEXEC), file, words, environ, 0);
    default: spawn_from_folder(program, way, words);
    }
    return -1;
}

int main(int count, char **words) {
    CHECK(count == 2);
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(words[1], '/') - words[1]), words[1]);
    CHECK(setenv("PATH", folder, 1) == 0);
    CHECK(execl("/there/is/no/such/file", "x", (char *)NULL) == -1 && errno == ENOENT);
    CHECK(execlp("no-such-program", "x", "y", (char *)NULL) == -1 && errno == ENOENT);
    for (int way = 0; way < WAYS; way++) {
        pid_t child = way % 2 && way < 10 ? vfork() : fork();
        CHECK(child >= 0);
        if (child == 0) {
            start(words[1], way);
            _exit(1);
        }
        join_child(child);
    }
    return 0;
}
