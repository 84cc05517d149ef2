/* pause: holds a pod's namespaces, reaps orphans, and ends when it is told to. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef VERSION
#define VERSION "unknown"
#endif

static void end(int signal_number) {
    (void)signal_number;
    _exit(0);
}

static void reap(int signal_number) {
    (void)signal_number;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
}

int main(int argc, char **argv) {
    struct sigaction ending = {.sa_handler = end};
    struct sigaction reaping = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};

    if (argc > 1 && strcmp(argv[1], "-v") == 0) {
        printf("pause.c %s\n", VERSION);
        return 0;
    }
    if (sigaction(SIGINT, &ending, NULL) || sigaction(SIGTERM, &ending, NULL) ||
        sigaction(SIGCHLD, &reaping, NULL)) {
        perror("pause: sigaction");
        return 1;
    }
    for (;;) {
        pause();
    }
}
