/* Adds the ns that stand in the file WALL_CLOCK_FILE to the wall clock of one process, as if somebody had set it:
   preloaded, it needs no root and moves nobody else's time. Monotonic clocks stay as they are. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static volatile const long long *step;

__attribute__((constructor)) static void find_step(void) {
    const char *path = getenv("WALL_CLOCK_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        void *found = mmap(NULL, sizeof *step, PROT_READ, MAP_SHARED, file, 0);
        if (found != MAP_FAILED) step = found;
        close(file);
    }
}

static int is_wall(clockid_t id) { return id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE; }

int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, now);
    if (result == 0 && step && is_wall(id)) {
        long long ns = now->tv_sec * SECOND + now->tv_nsec + *step;
        now->tv_sec = ns / SECOND;
        now->tv_nsec = ns % SECOND;
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec precise;
    int result = clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return result;
}

time_t time(time_t *now) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (now) *now = precise.tv_sec;
    return precise.tv_sec;
}
