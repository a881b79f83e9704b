#![allow(clippy::unwrap_used)]

use epochcost_simulator::profile::ComputeOrigin;

use super::*;

fn machine() -> Machine {
    Machine {
        cpu: Some("Abacus(R) 9000 @ 1 Hz".into()),
        cores: 4,
        cpu_quota: None,
        memory_bytes: None,
        gpus: Vec::new(),
        kernel: None,
        load_average: None,
        limits: Vec::new(),
        servers: Vec::new(),
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn plan(
    command: &str,
    batches: &[usize],
    change: impl Fn(&mut ScriptPlan),
) -> Result<ScriptPlan, Error> {
    let directory = tempfile::tempdir().unwrap();
    let command = words(command);
    let mut plan = ScriptPlan::new(
        &ScriptRequest {
            command: &command,
            batches,
            threads: &[],
            steps: 20,
            limit: Duration::from_secs(60),
            samples_per_step: None,
            name: None,
            out: Some(&directory.path().join("mine.yaml")),
            force: false,
            allows_bad_fit: false,
            as_measured: false,
        },
        machine(),
    )?;
    change(&mut plan);
    Ok(plan)
}

/// A program whose steps take 0.2 + 0.05 b seconds on one thread, of 10⁹ operations a sample.
fn measured(device: Device) -> Measured {
    let point = |samples: usize, threads: usize, step_s: f64| Point {
        samples,
        threads,
        steps: 20,
        step_s,
        low_s: step_s,
        high_s: step_s,
        mean_s: step_s,
        whole_s: step_s,
        optimizer_s: 0.0,
        data_s: 0.0,
        queue_s: 0.0,
        peak_mb: Some(500.0 + samples as f64),
    };
    let points = vec![point(8, 1, 0.6), point(32, 1, 1.8), point(32, 4, 0.9)];
    Measured {
        fitted: Fitted::through(&points, None).unwrap(),
        points,
        model: Described {
            trainable: Some(294_912.0),
            parameters: Some(124_734_720.0),
            dtype: Some("float32".into()),
            trainable_bytes: Some(1_179_648.0),
            device_name: Some("Tesla T4".into()),
            ..Described::default()
        },
        device,
        flops_per_sample: Some(1e9),
        rate: Some(1.354e11),
        evaluate_s: None,
        work: Work::default(),
        warnings: Vec::new(),
        notes: Vec::new(),
    }
}

#[test]
fn batch_sizes_and_their_place_go_together() {
    for (command, batches, says) in [
        ("python t.py --batch {batch}", &[][..], "--batch 8,32"),
        ("python t.py", &[8], "{batch}"),
    ] {
        let error = plan(command, batches, |_| {}).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    let plan = plan("python t.py --b={batch}", &[32, 8, 8], |_| {}).unwrap();
    assert_eq!(plan.batches, [8, 32]);
    assert_eq!(plan.threads, [1, 4]);
    assert_eq!(plan.command(Some(8)), words("python t.py --b=8"));
}

#[test]
fn a_program_is_named_by_its_file_and_no_model_by_chance() {
    for (command, name) in [
        ("python -u tools/fine_tune.py --x 1", "fine-tune"),
        ("sh run/step.sh 8", "step"),
        ("./trainer 3", "trainer"),
        ("python resnet18.py", "resnet18-script"),
        // Many programs are called so.
        ("python main.py", "mnist-main"),
        ("python tools/train.py", "tools-train"),
        ("python -m trl.scripts.sft --m 1", "sft"),
        ("python t.py -m x", "t"),
    ] {
        assert_eq!(
            program(&words(command), Path::new("/x/mnist")),
            name,
            "{command}"
        );
    }
    // A model of this program that is asked for by name needs no experiment of its own.
    assert!(
        plan("python t.py", &[], |_| {})
            .unwrap()
            .experiment
            .is_some()
    );
}

/// What is carried: twice as fast a machine as a vCPU takes half as long, and says so.
#[test]
fn times_are_carried_to_a_vcpu_and_operations_to_a_t4() {
    let plan = plan("python t.py --b {batch}", &[8, 32], |_| {}).unwrap();
    let (profile, lacking) = profile(&plan, &measured(Device::Cpu)).unwrap();
    assert_eq!(profile.origin, ComputeOrigin::Scaled);
    assert!(profile.faults().is_empty(), "{:?}", profile.faults());
    assert!(lacking[0].contains("AMP"), "{lacking:?}");
    assert_eq!(lacking.len(), 1);
    let cpu = profile.find("t", Device::Cpu).unwrap();
    assert!((cpu.step_s(8, 1.0) / 1.2 - 1.0).abs() < 1e-3, "{cpu:?}");
    assert!((cpu.step_s(32, 4.0) / 1.8 - 1.0).abs() < 1e-3, "{cpu:?}");
    assert!((cpu.peak_mb(32) - 532.0).abs() < 0.1);
    let gpu = profile.find("t", Device::Cuda).unwrap();
    assert!((gpu.step_s(27, 1.0) / 0.01 - 1.0).abs() < 1e-3, "{gpu:?}");
    // Draws of the factor stay in its range, and both ends are reached.
    let (low, high) = cpu.carried.as_ref().unwrap().range();
    let drawn: Vec<f64> = (0..200)
        .map(|seed| cpu.sampled(seed).step_s(8, 1.0) / 0.6)
        .collect();
    let least = drawn.iter().copied().fold(f64::INFINITY, f64::min);
    let most = drawn.iter().copied().fold(0.0, f64::max);
    assert!(low * 0.999 <= least && least < low * 1.1, "{least} {low}");
    assert!(high * 0.9 < most && most <= high * 1.001, "{most} {high}");
}

#[test]
fn as_measured_is_as_measured() {
    let plan = plan("python t.py --b {batch}", &[8, 32], |plan| {
        plan.as_measured = true
    })
    .unwrap();
    let (profile, _) = profile(&plan, &measured(Device::Cpu)).unwrap();
    assert_eq!(profile.origin, ComputeOrigin::Measured);
    let [cpu] = profile.models.as_slice() else {
        panic!()
    };
    assert_eq!(
        (cpu.fixed_s, cpu.sample_s, &cpu.carried),
        (0.2, 0.05, &None)
    );
    assert_eq!(cpu.sampled(3), *cpu);
}

#[test]
fn a_gpu_is_carried_by_its_name() {
    let plan = plan("python t.py --b {batch}", &[8, 32], |_| {}).unwrap();
    let (profile, _) = profile(&plan, &measured(Device::Cuda)).unwrap();
    let [gpu] = profile.models.as_slice() else {
        panic!()
    };
    assert_eq!(
        (gpu.device, gpu.fixed_s, gpu.parallel),
        (Device::Cuda, 0.2, 0.0)
    );
    let mut unknown = measured(Device::Cuda);
    unknown.model.device_name = Some("Abacus".into());
    let error = super::profile(&plan, &unknown).unwrap_err().to_string();
    assert!(
        error.contains("Abacus") && error.contains("--as-measured"),
        "{error}"
    );
}

#[test]
fn doubts_are_raised_by_what_was_measured() {
    let plan = plan("python t.py --b {batch}", &[8, 32], |_| {}).unwrap();
    let mut points = measured(Device::Cpu).points;
    let seen = Observed::default();
    let doubts =
        |points: &[Point]| super::doubts(&plan, points, &[&seen; 3], &Described::default());
    let two = doubts(&points);
    assert!(
        two.len() == 1 && two[0].contains("any two batch sizes"),
        "{two:?}"
    );
    points[0].high_s *= 2.0;
    points[1].samples = 16;
    points[2].queue_s = 0.3;
    points[1].mean_s *= 1.5;
    let found = doubts(&points).join("\n");
    assert!(found.contains("idle machine"), "{found}");
    assert!(found.contains("waited for a core"), "{found}");
    assert!(found.contains("1.50 times what the profile has"), "{found}");
    assert!(
        found.contains("at --batch 32 a step has 16 samples"),
        "{found}"
    );
}

/// mnist of pytorch/examples: most of its memory is there before the first step.
#[test]
fn memory_of_one_batch_size_is_bounded_by_what_was_there_before() {
    let mut points = measured(Device::Cpu).points;
    points.truncate(1);
    let bound = |fixed| {
        let memory = Fitted::through(&points, fixed).unwrap().memory.unwrap();
        (memory.fixed, memory.per_sample.round())
    };
    assert_eq!(bound(Some(428.0)), (428.0, 10.0));
    assert_eq!(bound(Some(900.0)).1, 0.0);
    assert_eq!(bound(None).0, 0.0);
}

/// What a program ends by is what a plan begins with.
#[test]
fn the_work_is_that_of_the_program() {
    let model = |epoch_samples, epochs, planned_steps| Described {
        epoch_samples,
        epochs,
        planned_steps,
        planned_by: Some("args.n of t.py".into()),
        ..Described::default()
    };
    let work = |model: Described, ended_after| {
        let observed = Observed {
            ended_after,
            ..Observed::default()
        };
        let work = Work::of(&observed, &model, 8);
        (work.samples, work.epochs)
    };
    assert_eq!(
        work(model(Some(80.0), Some(14.0), None), None),
        (Some(80.0), Some(14.0))
    );
    assert_eq!(
        work(model(None, None, Some(50.0)), None),
        (Some(400.0), Some(1.0))
    );
    assert_eq!(
        work(model(Some(80.0), Some(14.0), None), Some(20)),
        (Some(80.0), Some(2.0))
    );
    // Eleven steps per epoch, the last of four samples.
    assert_eq!(
        work(model(Some(84.0), None, None), Some(22)),
        (Some(84.0), Some(2.0))
    );
    let observed = Observed {
        ended_after: Some(22),
        samples: vec![8.0, 8.0, 2.0],
        ..Observed::default()
    };
    let of_mean = Work::of(&observed, &model(Some(84.0), None, None), 6);
    assert_eq!(of_mean.epochs, Some(2.0));
    assert_eq!(
        work(model(Some(80.0), None, None), Some(3)),
        (Some(24.0), Some(1.0))
    );
    assert_eq!(work(model(None, None, None), None), (None, None));
}

#[test]
fn samples_are_a_number_for_each_batch_or_a_factor() {
    let each = |text: &str| text.parse::<SamplesPerStep>();
    assert_eq!(each("8,16").unwrap(), SamplesPerStep::Each(vec![8, 16]));
    assert_eq!(each("x0.5").unwrap(), SamplesPerStep::Factor(0.5));
    for text in ["0", "x0", "x-1", "8,", "xx", ""] {
        assert!(each(text).is_err(), "{text}");
    }
}
