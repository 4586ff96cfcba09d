/* Adds the ns that stand in the file WALL_CLOCK_FILE to the wall clock of one process, as if somebody had set it:
   preloaded, it needs no root and moves nobody else's time. Monotonic clocks stay as they are.

   Whoever waits until a moment of the wall clock (librdkafka does, for all its timeouts) has made it of the clock that
   we moved and gives it to a kernel that does not know: such moments are moved back, or each wait of a step backwards
   would end at once, in a loop that eats the machine, and each of a step ahead would take a day. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <threads.h>
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

/* Seconds since 1970 are above this, seconds since the machine was started never are. */
#define SINCE_1970 1000000000

static const struct timespec *true_moment(const struct timespec *moment, struct timespec *moved) {
    if (!step || moment->tv_sec < SINCE_1970) return moment;
    long long ns = moment->tv_sec * SECOND + moment->tv_nsec - *step;
    moved->tv_sec = ns / SECOND;
    moved->tv_nsec = ns % SECOND;
    return moved;
}

/* dlsym may find the condition variables of an age before NPTL, so the version is asked for. */
static void *versioned(const char *name, const char *version) {
    void *found = dlvsym(RTLD_NEXT, name, version);
    return found ? found : dlsym(RTLD_NEXT, name);
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict moment) {
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!real)
        real = (int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))versioned(
            "pthread_cond_timedwait", "GLIBC_2.3.2");
    struct timespec moved;
    return real(cond, mutex, true_moment(moment, &moved));
}

int cnd_timedwait(cnd_t *restrict cond, mtx_t *restrict mutex, const struct timespec *restrict moment) {
    static int (*real)(cnd_t *, mtx_t *, const struct timespec *);
    if (!real) real = (int (*)(cnd_t *, mtx_t *, const struct timespec *))dlsym(RTLD_NEXT, "cnd_timedwait");
    struct timespec moved;
    return real(cond, mutex, true_moment(moment, &moved));
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
