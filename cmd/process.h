// What every process that takes part in a run needs of its surroundings: signals, an identity, its share of the host's
// cores.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/exit_code.h"
#include "base/result.h"
#include "base/sha256.h"
#include "cluster/place/environment.h"
#include "cluster/spec.h"
#include "config/run_spec.h"

namespace dtrain::cmd {

// Counts SIGINT and SIGTERM from catch_signals() on: the first is the user's wish to end the run well; the second ends
// the process on the spot. An engine says it more than once (Slurm's step and its srun each do), and kills what it has
// no more patience with: of a task that one has started, only a second SIGINT, a person's, ends the process.
extern std::atomic<int> interrupts;
void catch_signals(bool of_engine = false);
// Returns when one has come.
void wait_for_interrupt();

// Claims a folder for this process until it ends; an error (kUsage) where another one has it. A folder that is not
// there, or on a file system without locks, is nobody's.
Status claim_folder(const std::string& path);

// For every command, first of all: descriptors 0 to 2 are open (else the next file would get one of them, and log lines
// would land in it), writing to a closed pipe or beyond a limit is an error and not a death, and an exception that
// nobody caught ends with a message and a code of the table.
void prepare_process();
// Whether standard output is a pipe that nobody reads any more.
bool reader_is_gone();
// Last of all: what was printed has arrived, or the code says that it has not; but a reader that went
// away has read enough.
int end_process(ExitCode code);

uint64_t random_incarnation();
// 32 bytes that nobody can guess.
Digest random_nonce();

// Threads that this host can give to one micro-batch: what the run file says, or its cores over the workers on it:
// `tasks_here`, or, where that is 0, those that the cluster lists with this host.
uint32_t offered_threads(const config::TrainSpec& train, const cluster::ClusterSpec& spec, const cluster::Task& self,
                         int tasks_here = 0);

// The variables of this process's environment.
cluster::Environment process_environment();

// Whether there is such a program: a path, or a name in the PATH.
bool in_path(const std::string& program);

// Takes every DTRAIN_ variable out of the environment: of a process whose children are told by flags what to do.
void forget_flags_of_environment();

// The path of this program, to start it again.
std::string own_path();

// The largest resident set of this process so far, in MiB.
int64_t peak_rss_mib();

}  // namespace dtrain::cmd
