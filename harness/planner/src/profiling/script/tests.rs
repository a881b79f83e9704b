use epochcost_simulator::profile::ComputeOrigin;

use super::super::tests::machine;
use super::*;
use crate::testing::{holds, lacks};

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn plan(command: &str, batches: &[usize]) -> Result<ScriptPlan, Error> {
    let directory = tempfile::tempdir().unwrap();
    let request = ScriptRequest {
        command: &words(command),
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
    };
    let machine = Machine {
        memory_bytes: None,
        load_average: None,
        ..machine()
    };
    ScriptPlan::new(&request, machine)
}

/// A plan of two batch sizes.
fn of_two() -> ScriptPlan {
    plan("python t.py --b {batch}", &[8, 32]).unwrap()
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
        holds(plan(command, batches).unwrap_err(), &[says]);
    }
    let plan = plan("python t.py --b={batch}", &[32, 8, 8]).unwrap();
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
        let found = program(&words(command), Path::new("/x/mnist"));
        assert_eq!(found, name, "{command}");
    }
    // A model of this program that is asked for by name needs no experiment of its own.
    assert!(plan("python t.py", &[]).unwrap().experiment.is_some());
}

/// What is carried: twice as fast a machine as a vCPU takes half as long, and says so.
#[test]
fn times_are_carried_to_a_vcpu_and_operations_to_a_t4() {
    let plan = of_two();
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
    let drawn = (0..200).map(|seed| cpu.sampled(seed).step_s(8, 1.0) / 0.6);
    let least = drawn.clone().fold(f64::INFINITY, f64::min);
    let most = drawn.fold(0.0, f64::max);
    assert!(low * 0.999 <= least && least < low * 1.1, "{least} {low}");
    assert!(high * 0.9 < most && most <= high * 1.001, "{most} {high}");
}

/// What is planned says nothing of GPUs where the profile does not, and no plan is none silently.
#[test]
fn operations_are_not_made_up() {
    let plan = of_two();
    let experiment = plan.experiment.as_deref().unwrap();
    std::fs::create_dir_all(experiment.parent().unwrap()).unwrap();
    let written = |measured: &Measured| {
        let (profile, _) = profile(&plan, measured).unwrap();
        file::write_experiment(&plan, experiment, &profile, measured).unwrap();
        let source = profile
            .find("t", Device::Cuda)
            .map(|cost| cost.source.clone());
        (std::fs::read_to_string(experiment).unwrap(), source)
    };
    let mut measured = measured(Device::Cpu);
    let (text, source) = written(&measured);
    holds(&text, &["\n    flops_per_sample: 3.333e8\n"]);
    holds(source.unwrap(), &["as the program reported them"]);
    measured.model.framework = Some("torch-2.15".into());
    holds(written(&measured).1.unwrap(), &["counted by PyTorch"]);
    measured.flops_per_sample = None;
    let (text, source) = written(&measured);
    lacks(&text, &["flops_per_sample: "]);
    assert_eq!((source, unplanned(&plan, &measured)), (None, None));
    measured.model.trainable = None;
    let said = unplanned(&plan, &measured).unwrap();
    holds(&said, &["model trainable=N", "-plan.yaml is an older one"]);
    std::fs::remove_dir_all(experiment.parent().unwrap()).unwrap();
    lacks(unplanned(&plan, &measured).unwrap(), &["older"]);
}

#[test]
fn as_measured_is_as_measured() {
    let mut plan = of_two();
    plan.as_measured = true;
    let (profile, _) = profile(&plan, &measured(Device::Cpu)).unwrap();
    assert_eq!(profile.origin, ComputeOrigin::Measured);
    let [cpu] = profile.models.as_slice() else {
        panic!()
    };
    assert_eq!((cpu.fixed_s, cpu.sample_s), (0.2, 0.05));
    assert_eq!(cpu.carried, None);
    assert_eq!(cpu.sampled(3), *cpu);
}

#[test]
fn a_gpu_is_carried_by_its_name() {
    let plan = of_two();
    let (profile, _) = profile(&plan, &measured(Device::Cuda)).unwrap();
    let [gpu] = profile.models.as_slice() else {
        panic!()
    };
    assert_eq!(gpu.device, Device::Cuda);
    assert_eq!((gpu.fixed_s, gpu.parallel), (0.2, 0.0));
    let mut unknown = measured(Device::Cuda);
    unknown.model.device_name = Some("Abacus".into());
    let error = super::profile(&plan, &unknown).unwrap_err();
    holds(error, &["Abacus", "--as-measured"]);
}

#[test]
fn doubts_are_raised_by_what_was_measured() {
    let plan = of_two();
    let mut points = measured(Device::Cpu).points;
    let seen = Observed::default();
    let doubts =
        |points: &[Point]| super::doubts(&plan, points, &[&seen; 3], &Described::default());
    let [two] = &doubts(&points)[..] else {
        panic!()
    };
    holds(two, &["any two batch sizes"]);
    points[0].high_s *= 2.0;
    points[1].samples = 16;
    points[2].queue_s = 0.3;
    points[1].mean_s *= 1.5;
    let doubted = [
        "idle machine",
        "waited for a core",
        "1.50 times what the profile has",
        "at --batch 32 a step has 16 samples",
    ];
    holds(doubts(&points).join("\n"), &doubted);
    // Steps that do not follow the batch: both were given.
    points.iter_mut().for_each(|point| point.samples = 16);
    let said = doubts(&points).join("\n");
    holds(&said, &["Steps had 16 samples at each --batch"]);
    lacks(&said, &["Give two"]);
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
    let model = |[epoch_samples, epochs, planned_steps]: [Option<f64>; 3]| Described {
        epoch_samples,
        epochs,
        planned_steps,
        planned_by: Some("args.n of t.py".into()),
        ..Described::default()
    };
    let ended = |ended_after| Observed {
        ended_after,
        ..Observed::default()
    };
    let stated = [Some(80.0), Some(14.0), None];
    for (described, ended_after, expected) in [
        (stated, None, Some((80.0, 14.0))),
        ([None, None, Some(50.0)], None, Some((400.0, 1.0))),
        (stated, Some(20), Some((80.0, 2.0))),
        // Eleven steps per epoch, the last of four samples.
        ([Some(84.0), None, None], Some(22), Some((84.0, 2.0))),
        ([Some(80.0), None, None], Some(3), Some((24.0, 1.0))),
        ([None; 3], None, None),
    ] {
        let work = Work::of(&ended(ended_after), &model(described), 8);
        let found = (work.samples, work.epochs);
        assert_eq!(found, expected.unzip(), "{described:?}");
    }
    let uneven = Observed {
        samples: vec![8.0, 8.0, 2.0],
        ..ended(Some(22))
    };
    let of_mean = Work::of(&uneven, &model([Some(84.0), None, None]), 6);
    assert_eq!(of_mean.epochs, Some(2.0));
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
