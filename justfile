# Each recipe is one line over a real command; nothing here is needed to build, test or run.

# Show the recipes.
default:
    @just --list

# Every system on MobileNet, small enough for CI.
smoke *ARGS:
    cargo run --release -- run experiments/smoke.yaml {{ARGS}}

# Every system trains LeNet-5 past 80 % test accuracy.
learn *ARGS:
    cargo run --release -- run experiments/learn.yaml {{ARGS}}

# Time and cost of every system on AWS, before anything runs.
plan EXPERIMENT *ARGS:
    cargo run --release -- plan {{EXPERIMENT}} {{ARGS}}

# The papers' tables and figures, and one page over all of them: just reproduce --quick
reproduce *ARGS:
    cargo run --release -- reproduce {{ARGS}}

# The schemas of files, after a change to their types.
schemas:
    for kind in experiment paper place profile compute hardware prices validation; do cargo run --release -- list fields $kind --json > docs/schemas/$kind.json; done

# Every test. No cloud account, no services.
test *ARGS:
    cargo test --release {{ARGS}}

# Training steps against PyTorch's, interleaved: just bench --python PYTHON-WITH-TORCH
bench *ARGS:
    python3 benches/steps.py {{ARGS}}

# A worker that computes on NVIDIA GPUs; takes no CUDA to build. Then: EPOCHCOST_WORKER=target/cuda/release/bootstrap
build-cuda *ARGS:
    cargo build --release -p epochcost-worker --features cuda --target-dir target/cuda {{ARGS}}

# The GPU's operations on a Vulkan device in software (unoptimised kernels: LLVM takes minutes over some): apt-get install mesa-vulkan-drivers first.
test-cuda *ARGS:
    GALLIVM_PERF=nopt cargo test --release -p epochcost-models -p epochcost-worker --features epochcost-worker/cuda,epochcost-models/vulkan --target-dir target/cuda --config profile.release.opt-level=1 --lib gpu:: {{ARGS}}

# Training steps on the GPU against PyTorch's on the same one, interleaved: just bench-gpu --python PYTHON-WITH-TORCH
bench-gpu *ARGS:
    python3 benches/gpu.py {{ARGS}}

# Archive and wheel in dist/, for glibc 2.28: pip install --requirement packaging/requirements.txt and apt-get install libclang-dev first.
package *ARGS:
    python3 packaging/package.py {{ARGS}}

# Both installed where there is neither source nor cargo: just test-package target/x86_64-unknown-linux-gnu/release
test-package BINARIES:
    python3 packaging/test.py {{BINARIES}}

# Worker and Redis module that start on Amazon Linux 2023 (glibc 2.34) and on anything with glibc 2.28, wherever they are built: pip install cargo-zigbuild ziglang first. Name them in EPOCHCOST_WORKER and EPOCHCOST_TENSORDB.
package-aws:
    rustup target add x86_64-unknown-linux-gnu
    cargo zigbuild --release --bin bootstrap --bin epochcost --target x86_64-unknown-linux-gnu.2.28
    cargo zigbuild --release -p epochcost-tensordb --target x86_64-unknown-linux-gnu.2.28
    ls target/x86_64-unknown-linux-gnu/release/bootstrap target/x86_64-unknown-linux-gnu/release/epochcost target/x86_64-unknown-linux-gnu/release/libepochcost_tensordb.so

# AWS against an emulated account (moto, and the emulator in harness/aws-emulator): pip install 'moto[server,all]' and apt-get install redis-server rabbitmq-server libclang-dev first. Builds EC2's client, which takes 8 GB of memory.
test-aws *ARGS:
    cargo build --release --bin bootstrap
    cargo build --release -p epochcost-tensordb
    cargo build --release -p epochcost -p epochcost-aws -p epochcost-aws-emulator -p epochcost-channels -p epochcost-worker -p epochcost-s3-server --features epochcost/aws --bin epochcost
    EPOCHCOST_WORKER="$PWD/target/release/bootstrap" EPOCHCOST_TENSORDB="$PWD/target/release/libepochcost_tensordb.so" cargo test --release -p epochcost -p epochcost-aws -p epochcost-aws-emulator -p epochcost-channels -p epochcost-worker -p epochcost-s3-server --features epochcost/aws --test lifecycle --test wire --test pricing --test aws_run {{ARGS}}
    EPOCHCOST_WORKER="$PWD/target/release/bootstrap" cargo test --release -p epochcost -p epochcost-aws -p epochcost-aws-emulator -p epochcost-channels -p epochcost-worker -p epochcost-s3-server --features epochcost/aws --test aws

# Seeded faults over all systems, on this machine and in virtual time: just campaign 300 10000
campaign COUNT="300" SCHEDULES="10000":
    EPOCHCOST_TEST_LIMIT_S=86400 CAMPAIGN_FAULTS={{COUNT}} CAMPAIGN_SCHEDULES={{SCHEDULES}} cargo test --release -p epochcost --test it campaign:: -- --nocapture

# The papers' own arithmetic, done again.
audit *ARGS:
    cargo run --release -- audit {{ARGS}}

# What changed from one run to another: just compare results/<before> results/<after>
compare BEFORE AFTER *ARGS:
    cargo run --release -- compare {{BEFORE}} {{AFTER}} {{ARGS}}

# The Redis module's tests, in real servers; they need redis-server and libclang.
test-store *ARGS:
    cargo test --release -p epochcost-tensordb {{ARGS}}

# The Redis module against a client that fetches, computes and stores, and the published Lua script: just bench-store --out results/records/<date>-tensor-store.json
bench-store *ARGS:
    cargo bench --profile release -p epochcost-tensordb --bench store -- {{ARGS}}

# Validate every experiment file and show what it expands to.
check:
    cargo run --release -- check experiments

# Formatting, Clippy and the documentation, warnings denied.
lint:
    cargo fmt --check && cargo clippy --release --all-targets -- -D warnings && RUSTDOCFLAGS=-Dwarnings cargo doc --release --no-deps

# Write the reports of runs again, from their files alone: just report results/<run>
report +RUNS:
    cargo run --release -- report {{RUNS}}

# What CI runs.
ci:
    .ci/run
