//! The Linux system-call layer: the one place for raw system calls on other processes, swap devices and perf events.
